#include "graft/grammar/json_schema/formats.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

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

std::string time_pattern() {
  const std::string hour = "(?:[01][0-9]|2[0-3])";
  const std::string offset = "(?:[Zz]|[+-]" + hour + ":[0-5][0-9])";
  return group(hour + ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?" + offset +
               "|23:59:60(?:\\.[0-9]+)?(?:[Zz]|[+-]00:00)");
}

std::string ipv4_pattern() {
  const std::string part = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  return group(part + "(?:\\." + part + "){3}");
}

// RFC 4291: eight groups, of which :: replaces one or more; IPv4 may stand for the last two.
std::string ipv6_pattern() {
  const std::string h = "[0-9A-Fa-f]{1,4}";
  const std::string last = group(h + ":" + h + "|" + ipv4_pattern());
  std::string pattern = "(?:" + h + ":){6}" + last;
  const auto before = [&](int count) {
    if (count == 0) return std::string();
    return "(?:(?:" + h + ":){0," + std::to_string(count - 1) + "}" + h + ")?";
  };
  for (int after = 5; after >= 0; --after)
    pattern += str("|", before(5 - after), "::(?:", h, ":){", after, "}", last);
  pattern += "|" + before(6) + "::" + h + "|" + before(7) + "::";
  return group(pattern);
}

// RFC 1123. A label has up to 63 characters; the length of all is bounded by 4 labels, below 255.
std::string hostname_pattern() {
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return group(label + "(?:\\." + label + "){0,2}");
}

std::string email_pattern() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";
  return group(atom + "(?:\\." + atom + "){0,2}@" + hostname_pattern());
}

// RFC 3986 with an authority of a name or an IPv4 address, or a path.
std::string uri_pattern() {
  const std::string plain = "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})";
  const std::string in_path = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
  const std::string user = "(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@";
  const std::string authority =
      "//(?:" + user + ")?(?:\\[" + ipv6_pattern() + "\\]|" + plain + "*)(?::[0-9]*)?";
  const std::string path = "(?:/" + in_path + "*)*";
  const std::string hierarchy = group(authority + path + "|/" + group(in_path + "+" + path) + "?|" +
                                      in_path + "+" + path + "|");
  const std::string tail = "(?:" + in_path + "|[/?])*";
  return group("[A-Za-z][A-Za-z0-9+.-]*:" + hierarchy + "(?:\\?" + tail + ")?(?:#" + tail + ")?");
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
  if (name == "time") return time_pattern();
  if (name == "date-time") return date_pattern() + "[Tt]" + time_pattern();
  if (name == "duration") return duration_pattern();
  if (name == "uuid")
    return "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}";
  if (name == "base64") return "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?";
  if (name == "ipv4") return ipv4_pattern();
  if (name == "ipv6") return ipv6_pattern();
  if (name == "hostname") return hostname_pattern();
  if (name == "email") return email_pattern();
  if (name == "uri") return uri_pattern();
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
  return &known.emplace(name, std::move(values)).first->second;
}

}  // namespace graft::grammar::json
