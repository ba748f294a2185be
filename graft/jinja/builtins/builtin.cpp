#include "graft/jinja/builtins/builtin.h"

#include <algorithm>
#include <array>

namespace graft::jinja {
namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

void bind_named(const Builtin& builtin,
                const std::vector<std::string_view>& params,
                CallArgs& call,
                std::vector<Value>& values) {
  for (auto& [name, value] : call.named) {
    const auto param = std::ranges::find(params, std::string_view(name));
    if (param == params.end())
      raise(builtin.name, "() got an unexpected keyword argument '", name, "'");
    Value& slot = values[static_cast<std::size_t>(param - params.begin())];
    if (!slot.is(Kind::Missing))
      raise(builtin.name, "() got multiple values for argument '", name, "'");
    slot = value;
  }
}

// Binds positional and named arguments to parameters, as Python does.
void bind(const Builtin& builtin, Args& args) {
  if (builtin.params == "*") return;
  const bool positional_only = builtin.params.starts_with('/');
  const auto params = words(builtin.params.substr(positional_only ? 1 : 0));
  CallArgs& call = args.raw;
  if (call.positional.size() > params.size()) {
    raise(builtin.name, "() takes at most ", params.size(), " arguments, got ",
          call.positional.size());
  }
  if (positional_only && !call.named.empty()) raise(builtin.name, "() takes no keyword arguments");
  args.values = call.positional;
  args.values.resize(params.size(), Value::missing());
  bind_named(builtin, params, call, args.values);
  for (std::size_t i = 0; i < builtin.num_required; ++i) {
    if (!args.given(i)) raise(builtin.name, "() missing required argument '", params[i], "'");
  }
}

// A builtin as a value; methods are bound to `self`.
struct Function : NativeObject {
  Function(const Builtin& row, Value subject) : builtin(row), self(std::move(subject)) {
    nesting = self.nesting() + 1;
  }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, CallArgs& args) override {
    return call_builtin(runtime, builtin, self, args);
  }
  std::string repr(Runtime& /*runtime*/) override { return str("<function ", builtin.name, ">"); }
  std::string_view type_name() const override { return "builtin_function_or_method"; }

  const Builtin& builtin;
  Value self;
};

// Methods of Markup return Markup and escape plain string arguments.
Value call_markup_method(Runtime& runtime, const Builtin& builtin, Args& args) {
  for (Value& value : args.values) {
    if (value.is_text() && !value.text().is_markup)
      value = runtime.heap.text(escape_html(value.str()), true);
  }
  const auto mark = [&](const Value& value) {
    return value.is_text() ? runtime.heap.text(std::string(value.str()), true) : value;
  };
  const Value result = builtin.function(runtime, args);
  if (!result.is_sequence()) return mark(result);
  std::vector<Value> items;
  for (const Value& item : result.items())
    items.push_back(mark(item));
  return result.is(Kind::List) ? runtime.heap.list(std::move(items))
                               : runtime.heap.tuple(std::move(items));
}

}  // namespace

std::int64_t Args::integer(std::size_t index, std::int64_t fallback) const {
  if (!given(index)) return fallback;
  const Value& value = values[index];
  if (value.is_undefined()) raise(value.undefined_message());
  if (!value.is_integer())
    raise("'", type_name(value), "' object cannot be interpreted as an integer");
  return value.integer();
}

bool Args::flag(std::size_t index, bool fallback) const {
  return given(index) ? truth(values[index]) : fallback;
}

std::string_view Args::text(std::size_t index) const {
  const Value& value = values[index];
  if (!value.is_text()) raise("expected a string, not '", type_name(value), "'");
  return value.str();
}

const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Builtin::name);
  return found == table.end() ? nullptr : &*found;
}

Value call_builtin(Runtime& runtime, const Builtin& builtin, const Value& self, CallArgs& args) {
  runtime.heap.step(1 + (self.is_text() ? self.str().size() / 64 : 0));
  Args bound(self, args);
  bind(builtin, bound);
  const bool is_markup_method =
      self.is_text() && self.text().is_markup && find_method(self, builtin.name) == &builtin;
  return is_markup_method ? call_markup_method(runtime, builtin, bound)
                          : builtin.function(runtime, bound);
}

const Builtin* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), number_filters(), sequence_filters(), lazy_filters()}) {
    if (const Builtin* found = find_builtin(table, name)) return found;
  }
  return nullptr;
}

const Builtin* find_test(std::string_view name) {
  return find_builtin(tests(), name);
}

const Builtin* find_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::Text: {
      const Builtin* found = find_builtin(text_methods(), name);
      return found != nullptr ? found : find_builtin(text_search_methods(), name);
    }
    case Kind::List:
      if (name == "copy") return find_builtin(dict_methods(), name);
      return find_builtin(sequence_methods(), name);
    case Kind::Tuple:
    case Kind::Range:
      return find_builtin(sequence_methods(), name);
    case Kind::Dict:
      return find_builtin(dict_methods(), name);
    default:
      return nullptr;
  }
}

Value make_function(Runtime& runtime, const Builtin& builtin, const Value& self) {
  return runtime.heap.native(std::make_shared<Function>(builtin, self));
}

}  // namespace graft::jinja
