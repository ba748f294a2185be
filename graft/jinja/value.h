// The values of a template, with Python's types.
//
// Values are cheap to copy and immutable, except namespaces: the sandbox of Transformers forbids
// mutation. Objects are allocated through a Heap, which counts live bytes and enforces the limit.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graft/base/text/str.h"

namespace graft::jinja {

class Heap;
class Runtime;
class Value;
struct CallArgs;
struct Dict;
struct DictView;
struct List;
struct NumberRange;
struct Text;
struct Iterator;
struct NativeObject;

// An error while rendering. The caller of the interpreter adds the template's name and the line.
class RenderError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts>
[[noreturn]] void raise(const Parts&... parts) {
  throw RenderError(str(parts...));
}

enum class Kind : std::uint8_t {
  Missing,  // declared in a scope but not set; internal, templates never see it
  Undefined,
  None,
  Bool,
  Int,
  Float,
  Text,
  List,
  Tuple,
  Dict,
  View,  // keys(), values() or items() of a dict
  Range,
  Iterator,  // result of a lazy filter: can be read once
  Native,    // functions, macros, namespaces, loops
};

// Base of reference-counted objects; the destructor returns the charged bytes to the heap.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object();

  Heap* heap = nullptr;
  std::size_t charged_bytes = 0;
  int nesting = 1;  // depth of nested containers, including this one
};

class Value {
 public:
  Value() = default;  // None
  explicit Value(bool value) : kind_(Kind::Bool), integer_(value ? 1 : 0) {}
  explicit Value(std::int64_t value) : kind_(Kind::Int), integer_(value) {}
  explicit Value(double value) : kind_(Kind::Float), real_(value) {}
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}
  static Value missing() { return {Kind::Missing, nullptr}; }
  // An integer from a count or an index.
  static Value size(std::size_t value) { return Value(static_cast<std::int64_t>(value)); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_none() const { return kind_ == Kind::None; }
  bool is_undefined() const { return kind_ == Kind::Undefined; }
  bool is_text() const { return kind_ == Kind::Text; }
  bool is_integer() const { return kind_ == Kind::Int || kind_ == Kind::Bool; }
  bool is_number() const { return is_integer() || kind_ == Kind::Float; }
  bool is_sequence() const { return kind_ == Kind::List || kind_ == Kind::Tuple; }

  std::int64_t integer() const { return integer_; }  // of Int and Bool
  double real() const { return kind_ == Kind::Float ? real_ : static_cast<double>(integer_); }
  const Text& text() const;
  std::string_view str() const;             // the bytes of a Text
  const std::vector<Value>& items() const;  // of List and Tuple
  const Dict& dict() const;
  const DictView& view() const;
  const NumberRange& range() const;
  Iterator& iterator() const;
  NativeObject& native() const;
  const std::string& undefined_message() const;
  const std::shared_ptr<Object>& object() const { return object_; }
  int nesting() const { return object_ ? object_->nesting : 0; }

 private:
  Kind kind_ = Kind::None;
  std::int64_t integer_ = 0;
  double real_ = 0;
  std::shared_ptr<Object> object_;
};

struct Undefined : Object {
  std::string message;  // of the error raised when it is used
};

struct Text : Object {
  std::string bytes;
  std::size_t length = 0;  // code points
  bool is_markup = false;  // result of escape or safe: plain strings added to it are escaped
  bool is_ascii() const { return length == bytes.size(); }
};

struct List : Object {
  std::vector<Value> items;
  bool is_group = false;  // result of groupby: a tuple with attributes `grouper` and `list`
};

// Keeps insertion order. `counter` counts the steps of hashing and comparing.
struct Dict : Object {
  using Entry = std::pair<Value, Value>;

  const Value* find(Heap& counter, const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Heap& counter, const Value& key, Value value);
  std::size_t size() const { return entries.size(); }

  std::vector<Entry> entries;

 private:
  std::size_t position(Heap& counter, const Value& key) const;

  std::unordered_multimap<std::size_t, std::size_t> index_;  // hash -> entry; unused when small
};

struct DictView : Object {
  enum class Of { Keys, Values, Items };
  Of of = Of::Keys;
  Value dict;
};

struct NumberRange : Object {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
  std::int64_t size() const;
  std::int64_t at(std::int64_t index) const { return start + index * step; }
};

struct Iterator : Object {
  // Sets the next value; false at the end.
  using Next = std::function<bool(Value&)>;
  Next next;
};

// An object with attributes, or a callable, that is implemented in C++.
struct NativeObject : Object, std::enable_shared_from_this<NativeObject> {
  // False for an unknown attribute.
  virtual bool attribute(Runtime& runtime, std::string_view name, Value& value);
  virtual bool is_callable() const { return false; }
  virtual Value call(Runtime& runtime, CallArgs& args);
  virtual std::string repr(Runtime& runtime) = 0;
  virtual std::string_view type_name() const = 0;
  // Drops its references. Called after rendering on objects that can be part of a cycle.
  virtual void clear() {}
};

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Creates objects and enforces the limits on steps and live bytes. Must outlive its objects.
class Heap {
 public:
  struct Limits {
    std::size_t max_steps = 10'000'000;
    std::size_t max_bytes = std::size_t{256} << 20U;
  };

  explicit Heap(Limits limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap();

  void step(std::size_t count = 1);
  // Raises if `bytes` more would exceed the limit. Call before allocating.
  void check_memory(std::size_t bytes) const;
  void charge(Object& object, std::size_t bytes);
  void release(std::size_t bytes) { live_bytes_ -= bytes; }

  Value text(std::string bytes, bool is_markup = false);
  Value list(std::vector<Value> items) { return sequence(Kind::List, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::Tuple, std::move(items)); }
  Value group(Value key, Value items);
  Value dict(std::shared_ptr<Dict> dict);
  Value view(const Value& dict, DictView::Of of);
  Value range(std::int64_t start, std::int64_t stop, std::int64_t step);
  // The iterator inherits the nesting of `source`, the values it captures.
  Value iterator(const Value& source, Iterator::Next next);
  Value undefined(std::string message);
  Value native(std::shared_ptr<NativeObject> object);
  // Sets the nesting of an object that holds one of nesting `inner`; raises at the limit.
  static void set_nesting(Object& object, int inner);
  // Registers an object that can be part of a reference cycle: ~Heap clears it.
  void track_cycle(std::shared_ptr<NativeObject> object);

 private:
  Value sequence(Kind kind, std::vector<Value> items);

  Limits limits_;
  std::size_t steps_ = 0;
  std::size_t live_bytes_ = 0;
  std::vector<std::shared_ptr<NativeObject>> tracked_;
};

// Python's type name: "str", "list", "NoneType".
std::string_view type_name(const Value& value);
bool truth(const Value& value);
// Python's len(); false for values without a length.
bool length(const Value& value, std::size_t& result);

// `counter` counts the steps of comparing nested values.
bool equals(Heap& counter, const Value& a, const Value& b);
// a < b. Raises for types that have no order.
bool less(Heap& counter, const Value& a, const Value& b);
// Raises for lists and dicts.
std::size_t hash_of(Heap& counter, const Value& value);

}  // namespace graft::jinja
