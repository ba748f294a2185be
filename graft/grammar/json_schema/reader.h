// Reads a schema into forms.

#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/grammar/json_schema/form.h"

namespace graft::grammar::json {

class Reader {
 public:
  // The document must outlive the reader.
  explicit Reader(const OrderedJson& document);

  // The forms of values that match all schemas. Throws Error that names the keyword and its path.
  std::vector<Form> read(const std::vector<SchemaRef>& schemas);
  std::string path_of(SchemaRef schema) const;

 private:
  using Forms = std::vector<Form>;

  Forms read(SchemaRef schema);
  Forms read_object(SchemaRef schema);
  void check_keywords(SchemaRef schema) const;
  // Keywords of one form.
  Form simple_form(SchemaRef schema);
  void read_types(SchemaRef schema, Form& form);
  void read_numbers(SchemaRef schema, Form& form);
  void read_content(SchemaRef schema, Form& form);
  void read_strings(SchemaRef schema, Form& form);
  void read_arrays(SchemaRef schema, Form& form);
  void read_contains(SchemaRef schema, Form& form);
  void read_objects(SchemaRef schema, Form& form);
  std::vector<std::pair<std::string, SchemaRef>> schemas_of(SchemaRef schema, const char* keyword);
  PropertyRules read_properties(SchemaRef schema);
  SchemaRef unevaluated(SchemaRef schema, const std::string& keyword, const std::string& other);
  // Keywords that combine schemas.
  static OrderedJson schema_of_value(const OrderedJson& value);
  Forms read_enum(const OrderedJson& values);
  Forms read_list(SchemaRef schema, const std::string& keyword, bool is_all);
  Forms read_one_of(SchemaRef schema);
  Forms read_if(SchemaRef schema, unsigned types);
  void read_dependencies(SchemaRef schema, Forms& forms);
  Forms negated(const Forms& forms, unsigned types, const std::string& path);
  void negate_objects(const Forms& forms, Form rest, Forms& out, const std::string& path);
  bool are_disjoint(const Forms& a, const Forms& b, int depth);
  bool are_disjoint(const Form& a, const Form& b, int depth);
  bool have_disjoint_properties(const Form& a, const Form& b, int depth);
  bool have_disjoint_items(const Form& a, const Form& b, int depth);

  SchemaRef find_reference(SchemaRef schema, const std::string& reference);
  SchemaRef child(SchemaRef schema, const std::string& keyword);
  SchemaRef child_of(const OrderedJson& value, const std::string& path);
  SchemaRef made(OrderedJson schema);
  std::int64_t count_of(SchemaRef schema, const std::string& keyword, std::int64_t missing) const;
  template <class... Parts>
  [[noreturn]] void fail_at(SchemaRef schema,
                            const std::string& keyword,
                            const Parts&... parts) const;

  const OrderedJson& document_;
  bool is_draft7_ = false;  // by $schema: $ref hides the keywords beside it, content is checked
  bool has_nested_ids_ = false;  // references inside are relative to them
  std::map<std::string, SchemaRef> anchors_;
  std::deque<OrderedJson> made_;
  std::unordered_map<SchemaRef, std::string> paths_;
  int depth_ = 0;
};

}  // namespace graft::grammar::json
