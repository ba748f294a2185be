// The syntax tree of a template. The parser rejects expressions deeper than kMaxHeight, so that
// recursing over a tree needs a bounded stack.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graft/jinja/builtins/builtin.h"

namespace graft::jinja {

inline constexpr int kMaxHeight = 400;

// Index of a variable name in the SymbolTable.
using Symbol = int;
class SymbolTable {
 public:
  Symbol add(const std::string& name);
  // -1 for a name that the template does not use.
  Symbol find(const std::string& name) const;
  const std::string& name(Symbol symbol) const { return names_[static_cast<std::size_t>(symbol)]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::unordered_map<std::string, Symbol> symbols_;
  std::vector<std::string> names_;
};

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<std::unique_ptr<Stmt>>;

enum class ExprKind : std::uint8_t {
  Constant,
  Captured,  // the output of the block that the filter is applied to
  Name,
  Tuple,
  List,
  Dict,       // key, value, key, value …
  Attribute,  // items[0].name
  Item,       // items[0][items[1]]
  Slice,      // items[0][items[1]:items[2]:items[3]]; omitted bounds are null
  Call,       // items[0](args)
  Filter,     // items[0] | name(args)
  Test,       // items[0] is name(args)
  Not,
  Negate,
  Plus,
  Binary,
  And,
  Or,
  Concat,       // items[0] ~ items[1] ~ …
  Compare,      // items[0] compare[0] items[1] compare[1] …
  Conditional,  // items[0] if items[1] else items[2], which may be null
};

enum class CompareOp : std::uint8_t { Eq, Ne, Lt, Le, Gt, Ge, In, NotIn };

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *args
  ExprPtr double_star;  // **kwargs
};

struct Expr {
  ExprKind kind = ExprKind::Constant;
  int line = 1;
  int height = 1;
  Symbol symbol = -1;
  BinaryOp op = BinaryOp::Add;
  Value constant;
  std::string name;
  std::vector<ExprPtr> items;
  std::vector<CompareOp> compare;
  Arguments args;
  const Builtin* builtin = nullptr;  // of Filter and Test; null for an unknown name
};

// The target of an assignment: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  enum class Kind : std::uint8_t { Name, Attribute, Tuple };
  Kind kind = Kind::Name;
  int line = 1;
  Symbol symbol = -1;
  std::string attribute;
  std::vector<Target> items;
};

struct MacroNode {
  std::string name;  // empty: the body of a call block
  Symbol symbol = -1;
  std::vector<Symbol> params;
  std::vector<std::string> param_names;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  // Whether the body reads these special names. If not, passing them is an error.
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
};

enum class StmtKind : std::uint8_t {
  Output,
  If,
  For,
  Set,
  SetBlock,
  With,
  Macro,
  Call,
  Generation,
  Filter,
  Block,
  Do,
  Break,
  Continue,
};

struct Stmt {
  StmtKind kind = StmtKind::Output;
  int line = 1;
  std::vector<ExprPtr> exprs;  // Output: texts and expressions; If: tests; With: values
  std::vector<Target> targets;
  std::vector<Body> bodies;  // If: one per test
  Body body;
  Body else_body;  // of If and For
  ExprPtr value;   // of Set and Do; the iterable of For; the call of Call; the filter of a block
  ExprPtr test;    // for x in y if test
  bool recursive = false;
  bool uses_loop = false;
  bool scoped = false;
  MacroNode macro;
};

struct Template {
  explicit Template(std::string title)
      : name(std::move(title)),
        heap(Heap::Limits{.max_steps = SIZE_MAX, .max_bytes = std::size_t{256} << 20U}) {}

  std::string name;
  Heap heap;  // owns the constants
  SymbolTable symbols;
  Body body;
};

// Throws Error "name:3: expected token 'end of statement block'…".
std::unique_ptr<const Template> parse_template(std::string_view source, const std::string& name);

// Reports the errors that Jinja finds at compile time: unknown filters and tests outside of
// conditions, break and continue outside of loops, assignment to `loop`. Throws Error.
void check_template(const Template& tree);

}  // namespace graft::jinja
