// Errors that Jinja reports when it compiles a template, even in code that is never executed.

#include "graft/base/error.h"
#include "graft/jinja/parser/ast.h"

namespace graft::jinja {
namespace {

struct Context {
  bool is_conditional = false;  // unknown filters fail only when executed
  bool in_loop = false;
  bool in_any_loop = false;  // including loops around the enclosing macro
};

class Checker {
 public:
  explicit Checker(const Template& tree) : tree_(tree), loop_(tree.symbols.find("loop")) {}

  void check(const Body& body, Context context) {
    for (const auto& stmt : body)
      check(*stmt, context);
  }

 private:
  template <class... Parts>
  [[noreturn]] void error(int line, const Parts&... parts) const {
    fail(tree_.name, ":", line, ": ", parts...);
  }

  void check(const Expr* expr, Context context) {
    if (expr == nullptr) return;
    const bool is_filter = expr->kind == ExprKind::Filter;
    if ((is_filter || expr->kind == ExprKind::Test) && expr->builtin == nullptr &&
        !context.is_conditional)
      error(expr->line, "No ", is_filter ? "filter" : "test", " named '", expr->name, "'.");
    context.is_conditional = context.is_conditional || expr->kind == ExprKind::Conditional;
    for (const ExprPtr& item : expr->items)
      check(item.get(), context);
    for (const ExprPtr& arg : expr->args.positional)
      check(arg.get(), context);
    for (const auto& [name, arg] : expr->args.named)
      check(arg.get(), context);
    check(expr->args.star.get(), context);
    check(expr->args.double_star.get(), context);
  }

  void check(const Target& target, Context context) {
    if (context.in_any_loop && target.kind == Target::Kind::Name && target.symbol == loop_)
      error(target.line, "Can't assign to special loop variable in for-loop target");
    for (const Target& item : target.items)
      check(item, context);
  }

  void check(const MacroNode& macro, Context context) {
    const Context inside{
        .is_conditional = false, .in_loop = false, .in_any_loop = context.in_any_loop};
    for (const ExprPtr& value : macro.defaults)
      check(value.get(), inside);
    check(macro.body, inside);
  }

  void check_for(const Stmt& stmt, Context context) {
    check(stmt.value.get(), context);
    Context inside{.is_conditional = false, .in_loop = true, .in_any_loop = true};
    check(stmt.test.get(), inside);
    check(stmt.targets[0], inside);
    check(stmt.body, inside);
    inside.in_loop = context.in_loop && !stmt.recursive;
    check(stmt.else_body, inside);
  }

  void check_if(const Stmt& stmt, Context context) {
    context.is_conditional = true;
    for (const ExprPtr& test : stmt.exprs)
      check(test.get(), context);
    for (const Body& body : stmt.bodies)
      check(body, context);
    check(stmt.else_body, context);
  }

  void check(const Stmt& stmt, Context context) {
    if (stmt.kind == StmtKind::If) return check_if(stmt, context);
    if (stmt.kind == StmtKind::For) return check_for(stmt, context);
    const bool is_jump = stmt.kind == StmtKind::Break || stmt.kind == StmtKind::Continue;
    if (is_jump && !context.in_loop) {
      error(stmt.line, stmt.kind == StmtKind::Break ? "'break' outside loop"
                                                    : "'continue' not properly in loop");
    }
    for (const ExprPtr& expr : stmt.exprs)
      check(expr.get(), context);
    for (const Target& target : stmt.targets) {
      if (stmt.kind != StmtKind::With) check(target, context);
    }
    check(stmt.macro, context);
    // A block is a new scope, in which unknown filters are errors again.
    Context inside = context;
    inside.is_conditional = false;
    if (stmt.kind == StmtKind::Block) inside = {.in_any_loop = context.in_any_loop};
    const bool filters_block = stmt.kind == StmtKind::SetBlock || stmt.kind == StmtKind::Filter;
    check(stmt.value.get(), filters_block ? inside : context);
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
