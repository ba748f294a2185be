#include "graft/grammar/json_schema/formats.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graft/base/text/str.h"
#include "graft/grammar/regex.h"

namespace graft::grammar::json {
namespace {

std::string group(const std::string& pattern) {
  return "(?:" + pattern + ")";
}

// RFC 3339; February has 29 days in leap years only.
std::string date_pattern() {
  const std::string leap_of_100 = "(?:0[48]|[2468][048]|[13579][26])";
  const std::string leap_year =
      group("[0-9][0-9]" + leap_of_100 + "|(?:[02468][048]|[13579][26])00");
  const std::string days = "(?:0[1-9]|1[0-9]|2[0-8])";
  const std::string common =
      "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"
      "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-" +
      days;
  return group("[0-9]{4}-" + group(common) + "|" + leap_year + "-02-29");
}

constexpr const char* kFraction = "(?:\\.[0-9]+)?";

// Without leap seconds.
std::string time_pattern() {
  const std::string hour = "(?:[01][0-9]|2[0-3])";
  return str(hour, ":[0-5][0-9]:[0-5][0-9]", kFraction, "(?:[Zz]|[+-]", hour, ":[0-5][0-9])");
}

// A leap second is 23:59:60 in UTC. Offsets are whole quarters of an hour, as those of all clocks
// since there are leap seconds: every offset would take ten times as many states.
std::string leap_second_pattern(bool is_next_day) {
  constexpr int kDay = 24 * 60;
  std::string pattern;
  for (int offset = 0; offset < kDay; offset += 15) {
    if (is_next_day && offset == 0) continue;
    const int local = is_next_day ? offset - 1 : kDay - 1 - offset;
    const std::string zone = offset == 0 ? "(?:[Zz]|[+-]00:00)"
                                         : fmt::format("{}{:02}:{:02}", is_next_day ? "\\+" : "-",
                                                       offset / 60, offset % 60);
    pattern += fmt::format("{}{:02}:{:02}:60{}{}", pattern.empty() ? "" : "|", local / 60,
                           local % 60, kFraction, zone);
  }
  return group(pattern);
}

std::string any_time_pattern() {
  return group(time_pattern() + "|" + leap_second_pattern(false) + "|" + leap_second_pattern(true));
}

// Leap seconds end June or December, in UTC.
std::string date_time_pattern() {
  return group(date_pattern() + "[Tt]" + time_pattern() + "|[0-9]{4}-(?:06-30|12-31)[Tt]" +
               leap_second_pattern(false) + "|[0-9]{4}-(?:07|01)-01[Tt]" +
               leap_second_pattern(true));
}

std::string ipv4_pattern() {
  const std::string part = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  return group(part + "(?:\\." + part + "){3}");
}

// RFC 4291: eight groups, of which :: replaces one or more, so that at most max_groups are written
// beside it; IPv4 may stand for the last two.
std::string ipv6_pattern(int max_groups = 7) {
  const std::string h = "[0-9A-Fa-f]{1,4}";
  const std::string last = group(h + ":" + h + "|" + ipv4_pattern());
  std::string pattern = "(?:" + h + ":){6}" + last;
  const auto before = [&](int count) {
    if (count == 0) return std::string();
    return "(?:(?:" + h + ":){0," + std::to_string(count - 1) + "}" + h + ")?";
  };
  for (int after = max_groups - 2; after >= 0; --after)
    pattern += str("|", before(max_groups - 2 - after), "::(?:", h, ":){", after, "}", last);
  pattern += "|" + before(max_groups - 1) + "::" + h + "|" + before(max_groups) + "::";
  return group(pattern);
}

// RFC 1123. A label has up to 63 characters, three of them or six shorter ones up to 191: the limit
// of all is 253.
std::string hostname_pattern() {
  const auto labels = [](int max_bytes, int max_more) {
    const std::string label = str("[A-Za-z0-9](?:[A-Za-z0-9-]{0,", max_bytes - 2, "}[A-Za-z0-9])?");
    return str(label, "(?:\\.", label, "){0,", max_more, "}");
  };
  return group(labels(63, 2) + "|" + labels(31, 5));
}

// A mailbox of RFC 5321: with a quoted local part, or an address in brackets, in which :: replaces
// two groups or more.
std::string email_pattern() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string local =
      group(atom + "(?:\\." + atom + R"()*|"(?:[ !#-\[\]-~]|\\[ -~]){0,30}")");
  return group(local + "@" +
               group(hostname_pattern() + "|\\[(?:" + ipv4_pattern() +
                     "|[Ii][Pp][Vv]6:" + ipv6_pattern(6) + ")\\]"));
}

// RFC 3987: what an IRI may have beside the characters of an URI, and that only in its query.
constexpr const char* kMoreOfIri =
    "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}"
    "\\u{30000}-\\u{3FFFD}\\u{40000}-\\u{4FFFD}\\u{50000}-\\u{5FFFD}\\u{60000}-\\u{6FFFD}"
    "\\u{70000}-\\u{7FFFD}\\u{80000}-\\u{8FFFD}\\u{90000}-\\u{9FFFD}\\u{A0000}-\\u{AFFFD}"
    "\\u{B0000}-\\u{BFFFD}\\u{C0000}-\\u{CFFFD}\\u{D0000}-\\u{DFFFD}\\u{E1000}-\\u{EFFFD}";
constexpr const char* kPrivateOfIri = R"(\uE000-\uF8FF\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD})";

// RFC 3986 with an authority of a name or an IP address, or a path.
std::string uri_pattern(bool is_iri, bool is_reference) {
  const auto characters = [&](const std::string& others) {
    return str("(?:[A-Za-z0-9._~!$&'()*+,;=", others, is_iri ? kMoreOfIri : "",
               "-]|%[0-9A-Fa-f]{2})");
  };
  const std::string in_path = characters(":@");
  const std::string future = "[Vv][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+";
  const std::string authority = "//(?:" + characters(":") + "*@)?(?:\\[(?:" + ipv6_pattern() + "|" +
                                future + ")\\]|" + characters("") + "*)(?::[0-9]*)?";
  const std::string path = "(?:/" + in_path + "*)*";
  // After a scheme; without one, a colon in the first part would end a scheme.
  const auto hierarchy = [&](const std::string& in_first) {
    return group(authority + path + "|/" + group(in_path + "+" + path) + "?|" + in_first + "+" +
                 path + "|");
  };
  const std::string tail = "(?:" + in_path + "|[/?])*";
  const std::string query = is_iri ? str("(?:", in_path, "|[/?", kPrivateOfIri, "])*") : tail;
  const std::string absolute = "[A-Za-z][A-Za-z0-9+.-]*:" + hierarchy(in_path);
  const std::string all =
      is_reference ? group(absolute + "|" + hierarchy(characters("@"))) : absolute;
  return group(all + "(?:\\?" + query + ")?(?:#" + tail + ")?");
}

std::string json_pointer_pattern() {
  return R"((?:/(?:[^/~]|[\n\r\u2028\u2029]|~[01])*)*)";
}

// ISO 8601 as in RFC 3339, appendix A.
std::string duration_pattern() {
  const std::string time = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
  const std::string date =
      "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:" + time + ")?";
  return group("P(?:" + date + "|" + time + "|[0-9]+W)");
}

std::string pattern_of(std::string_view name) {
  if (name == "date") return date_pattern();
  if (name == "time") return any_time_pattern();
  if (name == "date-time") return date_time_pattern();
  if (name == "duration") return duration_pattern();
  if (name == "uuid")
    return "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}";
  if (name == "base64") return "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?";
  if (name == "ipv4") return ipv4_pattern();
  if (name == "ipv6") return ipv6_pattern();
  if (name == "hostname") return hostname_pattern();
  if (name == "email") return email_pattern();
  if (name == "uri") return uri_pattern(false, false);
  if (name == "uri-reference") return uri_pattern(false, true);
  if (name == "iri") return uri_pattern(true, false);
  if (name == "iri-reference") return uri_pattern(true, true);
  if (name == "json-pointer") return json_pointer_pattern();
  if (name == "relative-json-pointer")
    return "(?:0|[1-9][0-9]*)(?:#|" + json_pointer_pattern() + ")";
  return "";
}

}  // namespace

bool names_a_pattern(std::string_view name) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"lowercase", "uppercase", "starts_with", "ends_with", "includes", "guid", "nanoid", "cuid",
       "cuid2", "ulid", "xid", "ksuid", "e164", "cidrv4", "cidrv6", "mac", "base64url"});
  return std::ranges::find(kNames, name) != kNames.end();
}

const Dfa* find_format(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, Dfa, std::less<>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(name);
  if (found != known.end()) return &found->second;
  const std::string pattern = pattern_of(name);
  if (pattern.empty()) return nullptr;
  Dfa values(regex_match(pattern));
  // Two hyphens there mark encoded names such as xn--, which have rules of their own.
  if (name == "hostname" || name == "email")
    values = difference(values, Dfa(regex_search("(^|[@.])[A-Za-z0-9-]{2}--")));
  // With an @ and the longest host name, 254 bytes: the limit of an address.
  if (name == "email")
    values = intersection(values, Dfa(regex_match("(?:[^@]{1,62}|\"[ -~]*)@[^@]+")));
  return &known.emplace(name, std::move(values)).first->second;
}

}  // namespace graft::grammar::json
