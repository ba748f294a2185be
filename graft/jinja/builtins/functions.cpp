// Global functions: Jinja's, and raise_exception and strftime_now of Transformers.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>

#include <fmt/format.h>

#include "graft/jinja/builtins/builtin.h"

namespace graft::jinja {
namespace {

// The same as MAX_RANGE of Jinja's sandbox.
constexpr std::int64_t kMaxRange = 100'000;
// Bounds and steps below this cannot overflow when added.
constexpr std::int64_t kMaxBound = std::int64_t{1} << 53U;

Value range(Runtime& runtime, Args& args) {
  const auto bound = [&](std::size_t i, std::int64_t fallback) {
    const std::int64_t value = args.integer(i, fallback);
    if (value > kMaxBound || value < -kMaxBound) raise("range: ", value, " is too large");
    return value;
  };
  const bool has_start = args.given(1);
  const std::int64_t start = has_start ? bound(0, 0) : 0;
  const std::int64_t stop = has_start ? bound(1, 0) : bound(0, 0);
  const std::int64_t step = bound(2, 1);
  if (step == 0) raise("range() arg 3 must not be zero");
  Value result = runtime.heap.range(start, stop, step);
  if (result.range().size() > kMaxRange)
    raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ").");
  return result;
}

Value make_dict(Runtime& runtime, Args& args) {
  return runtime.heap.dict(dict_of(runtime, args.raw));
}

Value make_namespace(Runtime& runtime, Args& args) {
  const auto attributes = dict_of(runtime, args.raw);
  auto made = std::make_shared<Namespace>();
  for (auto& [name, value] : attributes->entries)
    made->attributes.set(runtime.heap, name, value);
  runtime.heap.track_cycle(made);
  return runtime.heap.native(std::move(made));
}

Value raise_exception(Runtime& runtime, Args& args) {
  raise(to_str(runtime, args[0]));
}

// Expands %f, %z and %Z as Python does; strftime of the C library handles the rest.
std::string python_time_format(std::string_view format, std::int64_t microseconds) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const char code = format[++i];
    if (code == 'f') {
      out += fmt::format("{:06}", microseconds);
    } else if (code != 'z' && code != 'Z') {  // empty for a time without a time zone
      out += '%';
      out += code;
    }
  }
  return out;
}

Value strftime_now(Runtime& runtime, Args& args) {
  using std::chrono::microseconds;
  const auto since_epoch = std::chrono::floor<microseconds>(runtime.now.time_since_epoch()).count();
  const auto micros = ((since_epoch % 1'000'000) + 1'000'000) % 1'000'000;
  const auto seconds = static_cast<std::time_t>((since_epoch - micros) / 1'000'000);
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr)
    raise("strftime_now: the time has no local representation");
  // strftime returns 0 for an empty result and for a small buffer; the "!" excludes the former.
  const std::string format = python_time_format(args.text(0), micros) + "!";
  for (std::size_t size = 256;; size *= 4) {
    runtime.heap.check_memory(size);
    std::string out(size, '\0');
    const std::size_t used = std::strftime(out.data(), out.size(), format.c_str(), &local);
    if (used == 0) continue;
    out.resize(used - 1);
    return runtime.heap.text(std::move(out));
  }
}

struct Cycler : NativeObject {
  bool attribute(Runtime& runtime, std::string_view name, Value& value) override {
    if (name == "current") return value = items[at], true;
    const Builtin* method = find_builtin(cycler_methods(), name);
    if (method == nullptr) return false;
    value = make_function(runtime, *method, Value(Kind::Native, shared_from_this()));
    return true;
  }
  std::string repr(Runtime& /*runtime*/) override { return "<Cycler>"; }
  std::string_view type_name() const override { return "Cycler"; }

  std::vector<Value> items;
  std::size_t at = 0;
};

Value cycler(Runtime& runtime, Args& args) {
  if (!args.raw.named.empty() || args.raw.positional.empty())
    raise("at least one item has to be provided");
  auto made = std::make_shared<Cycler>();
  made->items = args.raw.positional;
  for (const Value& item : made->items)
    made->nesting = std::max(made->nesting, item.nesting() + 1);
  return runtime.heap.native(std::move(made));
}

Value cycler_next(Runtime& /*runtime*/, Args& args) {
  auto& cycler = static_cast<Cycler&>(args.self.native());
  Value value = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return value;
}

Value cycler_reset(Runtime& /*runtime*/, Args& args) {
  static_cast<Cycler&>(args.self.native()).at = 0;
  return {};
}

struct Joiner : NativeObject {
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, CallArgs& /*args*/) override {
    if (used) return separator;
    used = true;
    return runtime.heap.text("");
  }
  std::string repr(Runtime& /*runtime*/) override { return "<Joiner>"; }
  std::string_view type_name() const override { return "Joiner"; }

  Value separator;
  bool used = false;
};

Value joiner(Runtime& runtime, Args& args) {
  auto made = std::make_shared<Joiner>();
  made->separator = args.given(0) ? args[0] : runtime.heap.text(", ");
  made->nesting = made->separator.nesting() + 1;
  return runtime.heap.native(std::move(made));
}

// clang-format off
constexpr std::array kCyclerMethods = {
    Builtin{"next", "/", 0, cycler_next},
    Builtin{"reset", "/", 0, cycler_reset},
};
constexpr std::array kFunctions = {
    Builtin{"range", "/start stop step", 1, range},
    Builtin{"dict", "*", 0, make_dict},
    Builtin{"namespace", "*", 0, make_namespace},
    Builtin{"cycler", "*", 0, cycler},
    Builtin{"joiner", "sep", 0, joiner},
    Builtin{"raise_exception", "message", 1, raise_exception},
    Builtin{"strftime_now", "format", 1, strftime_now},
};
// clang-format on

}  // namespace

bool Namespace::attribute(Runtime& /*runtime*/, std::string_view name, Value& value) {
  const Value* found = attributes.find(name);
  if (found != nullptr) value = *found;
  return found != nullptr;
}

std::string Namespace::repr(Runtime& runtime) {
  if (is_printing) return "<Namespace {...}>";
  is_printing = true;
  std::string out = "<Namespace {";
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    const auto& [name, value] = attributes.entries[i];
    out += str(i > 0 ? ", " : "", to_repr(runtime, name), ": ", to_repr(runtime, value));
  }
  is_printing = false;
  return out + "}>";
}

std::shared_ptr<Dict> dict_of(Runtime& runtime, const CallArgs& args) {
  auto dict = std::make_shared<Dict>();
  if (args.positional.size() > 1)
    raise("dict expected at most 1 argument, got ", args.positional.size());
  for (const Value& source : args.positional) {
    if (source.is(Kind::Dict)) {
      for (const auto& [key, value] : source.dict().entries)
        dict->set(runtime.heap, key, value);
      continue;
    }
    const Iterator::Next next = iterate(runtime, source);
    for (Value pair; next(pair);) {
      const std::vector<Value> parts = collect(runtime, pair);
      if (parts.size() != 2)
        raise("dictionary update sequence element has length ", parts.size(), "; 2 is required");
      dict->set(runtime.heap, parts[0], parts[1]);
      if (dict->size() % 1024 == 0) runtime.heap.check_memory(dict->size() * sizeof(Dict::Entry));
    }
  }
  for (const auto& [name, value] : args.named)
    dict->set(runtime.heap, runtime.heap.text(name), value);
  return dict;
}

std::span<const Builtin> cycler_methods() {
  return kCyclerMethods;
}

std::span<const Builtin> functions() {
  return kFunctions;
}

}  // namespace graft::jinja
