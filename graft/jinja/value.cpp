#include "graft/jinja/value.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

// Nested containers. Destructors and printing recurse this deep; templates use a handful, Python
// fails at about 1000.
constexpr int kMaxNesting = 200;
// Dicts up to this size are searched linearly, without an index.
constexpr std::size_t kSmallDict = 8;
constexpr std::size_t kNoEntry = static_cast<std::size_t>(-1);

template <class T>
const T& as(const Value& value, bool right_kind) {
  GRAFT_DCHECK(right_kind, "value of kind ", static_cast<int>(value.kind()));
  static_cast<void>(right_kind);
  return static_cast<const T&>(*value.object());
}

}  // namespace

Object::~Object() {
  if (heap != nullptr) heap->release(charged_bytes);
}

const Text& Value::text() const {
  return as<Text>(*this, kind_ == Kind::Text);
}
std::string_view Value::str() const {
  return text().bytes;
}
const std::vector<Value>& Value::items() const {
  return as<List>(*this, is_sequence()).items;
}
const Dict& Value::dict() const {
  return as<Dict>(*this, kind_ == Kind::Dict);
}
const DictView& Value::view() const {
  return as<DictView>(*this, kind_ == Kind::View);
}
const NumberRange& Value::range() const {
  return as<NumberRange>(*this, kind_ == Kind::Range);
}
Iterator& Value::iterator() const {
  GRAFT_DCHECK(kind_ == Kind::Iterator, "not an iterator");
  return static_cast<Iterator&>(*object_);
}
NativeObject& Value::native() const {
  GRAFT_DCHECK(kind_ == Kind::Native, "not a native object");
  return static_cast<NativeObject&>(*object_);
}
const std::string& Value::undefined_message() const {
  return as<Undefined>(*this, is_undefined()).message;
}

std::size_t Dict::position(Heap& counter, const Value& key) const {
  const std::size_t hash = hash_of(counter, key);
  if (entries.size() <= kSmallDict) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (equals(counter, entries[i].first, key)) return i;
    }
    return kNoEntry;
  }
  const auto [first, last] = index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (equals(counter, entries[it->second].first, key)) return it->second;
  }
  return kNoEntry;
}

const Value* Dict::find(Heap& counter, const Value& key) const {
  const std::size_t at = position(counter, key);
  return at == kNoEntry ? nullptr : &entries[at].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto matches = [key](const Entry& entry) {
    return entry.first.is_text() && entry.first.str() == key;
  };
  if (entries.size() <= kSmallDict) {
    for (const Entry& entry : entries) {
      if (matches(entry)) return &entry.second;
    }
    return nullptr;
  }
  const auto [first, last] = index_.equal_range(std::hash<std::string_view>()(key));
  for (auto it = first; it != last; ++it) {
    if (matches(entries[it->second])) return &entries[it->second].second;
  }
  return nullptr;
}

void Dict::set(Heap& counter, const Value& key, Value value) {
  const std::size_t at = position(counter, key);
  if (at != kNoEntry) {
    entries[at].second = std::move(value);
    return;
  }
  entries.emplace_back(key, std::move(value));
  if (entries.size() <= kSmallDict) return;
  const std::size_t first = entries.size() == kSmallDict + 1 ? 0 : kSmallDict;
  for (std::size_t i = first == 0 ? 0 : entries.size() - 1; i < entries.size(); ++i)
    index_.emplace(hash_of(counter, entries[i].first), i);
}

std::int64_t NumberRange::size() const {
  // The difference of two int64 needs 65 bits.
  const auto wide = [](std::int64_t value) { return static_cast<__int128>(value); };
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const __int128 distance = step > 0 ? wide(stop) - start : wide(start) - stop;
  const __int128 stride = step > 0 ? wide(step) : -wide(step);
  const __int128 count = (distance + stride - 1) / stride;
  return count > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(count);
}

bool NativeObject::attribute(Runtime& /*runtime*/, std::string_view /*name*/, Value& /*value*/) {
  return false;
}

Value NativeObject::call(Runtime& /*runtime*/, CallArgs& /*args*/) {
  raise("'", type_name(), "' object is not callable");
}

Heap::~Heap() {
  for (const auto& object : tracked_)
    object->clear();
}

void Heap::step(std::size_t count) {
  steps_ += count;
  if (steps_ > limits_.max_steps)
    raise("the template needs more than ", limits_.max_steps, " steps");
}

void Heap::check_memory(std::size_t bytes) const {
  if (bytes > limits_.max_bytes || live_bytes_ > limits_.max_bytes - bytes)
    raise("the template needs more than ", limits_.max_bytes, " bytes of memory");
}

void Heap::charge(Object& object, std::size_t bytes) {
  check_memory(bytes);
  // Filling memory costs time: one step per 64-byte cache line.
  step(1 + bytes / 64);
  live_bytes_ += bytes;
  object.heap = this;
  object.charged_bytes += bytes;
}

void Heap::set_nesting(Object& object, int inner) {
  object.nesting = inner + 1;
  if (object.nesting > kMaxNesting) raise("values nested deeper than ", kMaxNesting);
}

Value Heap::text(std::string bytes, bool is_markup) {
  auto text = std::make_shared<Text>();
  charge(*text, sizeof(Text) + bytes.size());
  text->length = num_code_points(bytes);
  text->bytes = std::move(bytes);
  text->is_markup = is_markup;
  return {Kind::Text, std::move(text)};
}

Value Heap::sequence(Kind kind, std::vector<Value> items) {
  auto list = std::make_shared<List>();
  charge(*list, sizeof(List) + items.size() * sizeof(Value));
  int inner = 0;
  for (const Value& item : items)
    inner = std::max(inner, item.nesting());
  set_nesting(*list, inner);
  list->items = std::move(items);
  return {kind, std::move(list)};
}

Value Heap::group(Value key, Value items) {
  Value group = tuple({std::move(key), std::move(items)});
  static_cast<List&>(*group.object()).is_group = true;
  return group;
}

Value Heap::dict(std::shared_ptr<Dict> dict) {
  // The index costs about as much as the entries.
  charge(*dict, sizeof(Dict) + dict->size() * 2 * sizeof(Dict::Entry));
  int inner = 0;
  for (const auto& [key, value] : dict->entries)
    inner = std::max({inner, key.nesting(), value.nesting()});
  set_nesting(*dict, inner);
  return {Kind::Dict, std::move(dict)};
}

Value Heap::view(const Value& dict, DictView::Of of) {
  auto view = std::make_shared<DictView>();
  charge(*view, sizeof(DictView));
  set_nesting(*view, dict.nesting());
  view->of = of;
  view->dict = dict;
  return {Kind::View, std::move(view)};
}

Value Heap::range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  auto range = std::make_shared<NumberRange>();
  charge(*range, sizeof(NumberRange));
  range->start = start;
  range->stop = stop;
  range->step = step;
  return {Kind::Range, std::move(range)};
}

Value Heap::iterator(const Value& source, Iterator::Next next) {
  auto iterator = std::make_shared<Iterator>();
  charge(*iterator, sizeof(Iterator) + 64);
  set_nesting(*iterator, source.nesting());
  iterator->next = std::move(next);
  return {Kind::Iterator, std::move(iterator)};
}

Value Heap::undefined(std::string message) {
  auto undefined = std::make_shared<Undefined>();
  charge(*undefined, sizeof(Undefined) + message.size());
  undefined->message = std::move(message);
  return {Kind::Undefined, std::move(undefined)};
}

Value Heap::native(std::shared_ptr<NativeObject> object) {
  if (object->heap == nullptr) charge(*object, 128);
  return {Kind::Native, std::move(object)};
}

void Heap::track_cycle(std::shared_ptr<NativeObject> object) {
  charge(*object, sizeof(object));
  tracked_.push_back(std::move(object));
}

}  // namespace graft::jinja
