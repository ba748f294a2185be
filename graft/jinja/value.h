// What a template computes with: Python's values, as far as templates meet them.
//
// Values are cheap to copy and, namespaces aside, never change: the sandbox of Transformers forbids
// it. Everything that grows is made through a Heap, which counts what is alive and refuses more.

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
struct Thing;

// What goes wrong while rendering; the name of the template and the line are added at the end.
class RenderError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts>
[[noreturn]] void raise(const Parts&... parts) {
  throw RenderError(str(parts...));
}

enum class Kind : std::uint8_t {
  Missing,  // declared in a scope, without a value; templates never see it
  Undefined,
  None,
  Bool,
  Int,
  Float,
  Text,
  List,
  Tuple,
  Dict,
  View,  // of a dict: keys(), values(), items()
  Range,
  Iterator,  // what a lazy filter gives: can be walked through once
  Thing,     // functions, macros, namespaces, loops
};

// Base of all that is shared; gives its bytes back to the heap that made it.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object();

  Heap* heap = nullptr;
  std::size_t charged_bytes = 0;
  int nesting = 1;  // levels of containers within this one, itself included
};

class Value {
 public:
  Value() = default;  // None
  explicit Value(bool value) : kind_(Kind::Bool), integer_(value ? 1 : 0) {}
  explicit Value(std::int64_t value) : kind_(Kind::Int), integer_(value) {}
  explicit Value(double value) : kind_(Kind::Float), real_(value) {}
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}
  static Value missing() { return {Kind::Missing, nullptr}; }
  // A count or an index.
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
  Thing& thing() const;
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
  std::string message;  // of the error when it is used
};

struct Text : Object {
  std::string bytes;
  std::size_t length = 0;  // code points
  bool is_markup = false;  // escape and safe make Markup: adding a plain string escapes that
  bool is_ascii() const { return length == bytes.size(); }
};

struct List : Object {
  std::vector<Value> items;
  bool is_group = false;  // of groupby: a tuple whose fields are called `grouper` and `list`
};

// Keeps the order of insertion.
struct Dict : Object {
  using Entry = std::pair<Value, Value>;

  const Value* find(Heap& counter, const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Heap& counter, const Value& key, Value value);
  std::size_t size() const { return entries.size(); }

  std::vector<Entry> entries;

 private:
  std::size_t position(Heap& counter, const Value& key) const;

  std::unordered_multimap<std::size_t, std::size_t> index_;  // hash to entry, once there are many
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
  // Gives the next value, or false at the end.
  using Next = std::function<bool(Value&)>;
  Next next;
};

// What has attributes or can be called.
struct Thing : Object, std::enable_shared_from_this<Thing> {
  // False when there is no such attribute.
  virtual bool attribute(Runtime& runtime, std::string_view name, Value& value);
  virtual bool is_callable() const { return false; }
  virtual Value call(Runtime& runtime, CallArgs& args);
  virtual std::string repr(Runtime& runtime) = 0;
  virtual std::string_view type_name() const = 0;
  // Drops what it refers to; called when rendering is over, on those that can be part of a cycle.
  virtual void clear() {}
};

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Counts steps and the bytes that are alive. Must outlive the values it made.
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
  // Refuses what would be too much before it is made.
  void expect(std::size_t bytes) const;
  void charge(Object& object, std::size_t bytes);
  void release(std::size_t bytes) { live_bytes_ -= bytes; }

  Value text(std::string bytes, bool is_markup = false);
  Value list(std::vector<Value> items) { return sequence(Kind::List, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::Tuple, std::move(items)); }
  Value group(Value key, Value items);
  Value dict(std::shared_ptr<Dict> dict);
  Value view(const Value& dict, DictView::Of of);
  Value range(std::int64_t start, std::int64_t stop, std::int64_t step);
  // `source`: what the iterator walks through; only its nesting counts.
  Value iterator(const Value& source, Iterator::Next next);
  Value undefined(std::string message);
  Value thing(std::shared_ptr<Thing> thing);
  // Notes how deep an object is that holds one of that depth.
  static void nest(Object& object, int inner);
  // Things that can refer to themselves are kept until the heap goes and then cleared.
  void keep(std::shared_ptr<Thing> thing);

 private:
  Value sequence(Kind kind, std::vector<Value> items);

  Limits limits_;
  std::size_t steps_ = 0;
  std::size_t live_bytes_ = 0;
  std::vector<std::shared_ptr<Thing>> kept_;
};

// Python's name of the type, as in its messages: "str", "list", "NoneType".
std::string_view type_name(const Value& value);
bool truth(const Value& value);
// Python's len(); nothing for what has none.
bool length(const Value& value, std::size_t& result);

bool equals(Heap& counter, const Value& a, const Value& b);
// a < b. Raises for types that have no order.
bool less(Heap& counter, const Value& a, const Value& b);
// Raises for lists and dicts.
std::size_t hash_of(Heap& counter, const Value& value);

}  // namespace graft::jinja
