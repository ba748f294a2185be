#include "graft/formats/huggingface/fields.h"

#include <cmath>
#include <utility>

#include "graft/base/error.h"

namespace graft::formats {
namespace {

// A value for a message: one line of at most kMaxShown characters.
std::string shown(const Json& value) {
  constexpr std::size_t kMaxShown = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "…";
  return text;
}

}  // namespace

const Json& empty_object() {
  static const Json empty = Json::object();
  return empty;
}

Fields::Fields(const Json& object, std::string prefix, std::vector<std::string>& problems)
    : object_(&object), prefix_(std::move(prefix)), problems_(&problems) {
  if (object.is_object()) return;
  problems.push_back(str(prefix_.empty() ? "the top value" : prefix_, " is ", shown(object),
                         ", expected an object"));
  object_ = &empty_object();
}

const Json* Fields::find(std::string_view key) const {
  if (asked_ != nullptr) asked_->emplace(key);
  const auto found = object_->find(key);
  if (found == object_->end() || found->is_null()) return nullptr;
  return &*found;
}

bool Fields::is_null(std::string_view key) const {
  const auto found = object_->find(key);
  return found != object_->end() && found->is_null();
}

void Fields::problem(std::string_view key, const Json& value, std::string_view expected) const {
  problems_->push_back(str('"', prefix_, key, "\" is ", shown(value), ", expected ", expected));
}

std::optional<std::int64_t> Fields::checked_integer(std::string_view key,
                                                    const Json& value,
                                                    std::int64_t low) const {
  const auto in_range = [low](double number) {
    return number >= static_cast<double>(low) && number <= static_cast<double>(kMaxInteger);
  };
  // Some writers store sizes as 4096.0. The range check is on doubles: 2^64 - 1 must not become -1.
  if (value.is_number() && in_range(value.get<double>())) {
    const double number = value.get<double>();
    if (!value.is_number_float() || std::floor(number) == number) return value.get<std::int64_t>();
  }
  problem(key, value, str("an integer from ", low, " to ", kMaxInteger));
  return std::nullopt;
}

std::int64_t Fields::integer(std::string_view key, std::int64_t fallback, std::int64_t low) const {
  const Json* value = find(key);
  return value == nullptr ? fallback : checked_integer(key, *value, low).value_or(fallback);
}

std::optional<std::int64_t> Fields::integer(std::string_view key) const {
  const Json* value = find(key);
  return value == nullptr ? std::nullopt : checked_integer(key, *value, -kMaxInteger);
}

double Fields::number(std::string_view key, double fallback) const {
  return number(key).value_or(fallback);
}

std::optional<double> Fields::number(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  problem(key, *value, "a number");
  return std::nullopt;
}

bool Fields::boolean(std::string_view key, bool fallback) const {
  return boolean(key).value_or(fallback);
}

std::optional<bool> Fields::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  problem(key, *value, "true or false");
  return std::nullopt;
}

std::string Fields::text(std::string_view key, std::string_view fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  problem(key, *value, "a string");
  return std::string(fallback);
}

std::vector<std::int64_t> Fields::integers(std::string_view key, bool or_one) const {
  std::vector<std::int64_t> numbers;
  const Json* value = find(key);
  if (value == nullptr) return numbers;
  if (value->is_array()) {
    for (const Json& element : *value) {
      if (const auto number = checked_integer(key, element, -kMaxInteger))
        numbers.push_back(*number);
    }
  } else if (or_one) {
    if (const auto number = checked_integer(key, *value, -kMaxInteger)) numbers.push_back(*number);
  } else {
    problem(key, *value, "a list of integers");
  }
  return numbers;
}

std::vector<std::string> Fields::texts(std::string_view key) const {
  std::vector<std::string> strings;
  const Json* value = find(key);
  if (value == nullptr) return strings;
  if (!value->is_array()) {
    problem(key, *value, "a list of strings");
    return strings;
  }
  for (const Json& element : *value) {
    if (element.is_string()) {
      strings.push_back(element.get<std::string>());
    } else {
      problem(key, element, "a string");
    }
  }
  return strings;
}

Fields Fields::object(std::string_view key) const {
  const Json* value = find(key);
  Fields nested(value == nullptr ? empty_object() : *value, str(prefix_, key, '.'), *problems_);
  nested.asked_ = asked_;
  return nested;
}

void fail_if_any(const std::vector<std::string>& problems, const std::string& where) {
  if (problems.empty()) return;
  std::string text;
  for (const std::string& problem : problems) {
    if (!text.empty()) text += "; ";
    text += problem;
  }
  fail(where, ": ", text);
}

}  // namespace graft::formats
