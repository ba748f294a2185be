// What Jinja refuses while it compiles a template, whether the place is reached or not.

#include "graft/base/error.h"
#include "graft/jinja/ast.h"

namespace graft::jinja {
namespace {

struct Place {
  bool is_soft = false;  // in a condition: an unknown filter fails only when it is reached
  bool in_loop = false;
  bool in_any_loop = false;  // also through macros
};

class Checker {
 public:
  explicit Checker(const Template& tree) : tree_(tree), loop_(tree.symbols.find("loop")) {}

  void check(const Body& body, Place place) {
    for (const auto& stmt : body)
      check(*stmt, place);
  }

 private:
  template <class... Parts>
  [[noreturn]] void error(int line, const Parts&... parts) const {
    fail(tree_.name, ":", line, ": ", parts...);
  }

  void check(const Expr* expr, Place place) {
    if (expr == nullptr) return;
    const bool is_filter = expr->kind == ExprKind::Filter;
    if ((is_filter || expr->kind == ExprKind::Test) && expr->builtin == nullptr && !place.is_soft)
      error(expr->line, "No ", is_filter ? "filter" : "test", " named '", expr->name, "'.");
    place.is_soft = place.is_soft || expr->kind == ExprKind::Conditional;
    for (const ExprPtr& item : expr->items)
      check(item.get(), place);
    for (const ExprPtr& arg : expr->args.positional)
      check(arg.get(), place);
    for (const auto& [name, arg] : expr->args.named)
      check(arg.get(), place);
    check(expr->args.star.get(), place);
    check(expr->args.double_star.get(), place);
  }

  void check(const Target& target, Place place) {
    if (place.in_any_loop && target.kind == Target::Kind::Name && target.symbol == loop_)
      error(target.line, "Can't assign to special loop variable in for-loop target");
    for (const Target& item : target.items)
      check(item, place);
  }

  void check(const MacroNode& macro, Place place) {
    const Place inside{.is_soft = false, .in_loop = false, .in_any_loop = place.in_any_loop};
    for (const ExprPtr& value : macro.defaults)
      check(value.get(), inside);
    check(macro.body, inside);
  }

  void check_for(const Stmt& stmt, Place place) {
    check(stmt.value.get(), place);
    Place inside{.is_soft = false, .in_loop = true, .in_any_loop = true};
    check(stmt.test.get(), inside);
    check(stmt.targets[0], inside);
    check(stmt.body, inside);
    inside.in_loop = place.in_loop && !stmt.recursive;
    check(stmt.otherwise, inside);
  }

  void check_if(const Stmt& stmt, Place place) {
    place.is_soft = true;
    for (const ExprPtr& test : stmt.exprs)
      check(test.get(), place);
    for (const Body& body : stmt.bodies)
      check(body, place);
    check(stmt.otherwise, place);
  }

  void check(const Stmt& stmt, Place place) {
    if (stmt.kind == StmtKind::If) return check_if(stmt, place);
    if (stmt.kind == StmtKind::For) return check_for(stmt, place);
    const bool is_jump = stmt.kind == StmtKind::Break || stmt.kind == StmtKind::Continue;
    if (is_jump && !place.in_loop) {
      error(stmt.line, stmt.kind == StmtKind::Break ? "'break' outside loop"
                                                    : "'continue' not properly in loop");
    }
    for (const ExprPtr& expr : stmt.exprs)
      check(expr.get(), place);
    for (const Target& target : stmt.targets) {
      if (stmt.kind != StmtKind::With) check(target, place);
    }
    check(stmt.macro, place);
    // Blocks are scopes of their own, in which nothing is soft.
    Place inside = place;
    inside.is_soft = false;
    if (stmt.kind == StmtKind::Block) inside = {.in_any_loop = place.in_any_loop};
    const bool filters_block = stmt.kind == StmtKind::SetBlock || stmt.kind == StmtKind::Filter;
    check(stmt.value.get(), filters_block ? inside : place);
    check(stmt.body, inside);
  }

  const Template& tree_;
  Symbol loop_;
};

}  // namespace

void check_template(const Template& tree) {
  Checker(tree).check(tree.body, {});
}

}  // namespace graft::jinja
