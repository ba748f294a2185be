// Renders a parsed template once.
//
// Scopes are lexical, as in Jinja: each loop iteration, macro call, block and `with` has its own;
// `if` has none. Variables set in a scope end with it.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/jinja/parser/ast.h"

namespace graft::jinja {

struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}

  const Value* find(Symbol symbol) const;
  void set(Symbol symbol, Value value);

  std::shared_ptr<Scope> parent;
  std::vector<std::pair<Symbol, Value>> variables;
};
using ScopePtr = std::shared_ptr<Scope>;

struct Macro;
struct Loop;

class Interpreter : public Runtime {
 public:
  Interpreter(const Template& tree,
              Heap& render_heap,
              int depth_limit,
              std::size_t max_output_bytes,
              std::chrono::system_clock::time_point time);

  // Sets a variable before run().
  void define(const std::string& name, Value value);
  std::string run();

  // Called by Macro and Loop.
  Value call_macro(const Macro& macro, CallArgs& args);
  Value call_loop(const Loop& loop, const Value& iterable);

 private:
  enum class Flow { Normal, Break, Continue };
  class ScopeGuard;  // replaces the current scope for its lifetime
  class Capture;     // redirects the output to a string for its lifetime

  Flow execute(const Body& body);
  Flow execute(const Stmt& stmt);
  Flow execute_if(const Stmt& stmt);
  Flow execute_for(const Stmt& stmt);
  Flow execute_block(const Stmt& stmt);
  Flow execute_with(const Stmt& stmt);
  Flow execute_captured(const Stmt& stmt);
  void execute_call(const Stmt& stmt);
  Value run_macro(const MacroNode& node, const ScopePtr& scope);
  Flow run_loop(const Stmt& stmt, const ScopePtr& closure, const Value& iterable, int depth0);
  // Whether at least one iteration ended without break or continue.
  bool run_iterations(const Stmt& stmt, const ScopePtr& closure, Loop& loop);
  Iterator::Next filtered(const Stmt& stmt, const ScopePtr& closure, Iterator::Next next);

  void assign(const Target& target, const Value& value);
  void write(const Expr& expr);
  void append(std::string_view text);

  Value evaluate(const Expr& expr);
  Value evaluate_operation(const Expr& expr);
  Value look_up(Symbol symbol);
  Value evaluate_sequence(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_call(const Expr& expr, const Value* caller = nullptr);
  Value evaluate_filter(const Expr& expr);
  Value evaluate_test(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  bool compare(CompareOp op, const Value& a, const Value& b);
  CallArgs evaluate_arguments(const Arguments& args);

  const Template& tree_;
  std::vector<Value> context_;  // variables set by define(), by symbol; Missing when undefined
  ScopePtr top_;
  ScopePtr scope_;
  std::string* out_ = nullptr;
  std::size_t pending_bytes_ = 0;  // of the output and all active captures
  const std::size_t max_output_bytes_;
  const Value* captured_ = nullptr;  // the text that the filters of a block are applied to
  Symbol loop_symbol_;
};

struct Macro : NativeObject {
  Macro(const MacroNode& definition, ScopePtr scope)
      : node(definition), closure(std::move(scope)) {}
  bool attribute(Runtime& runtime, std::string_view name, Value& value) override;
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, CallArgs& args) override;
  std::string repr(Runtime& runtime) override;
  std::string_view type_name() const override { return "Macro"; }
  void clear() override { closure.reset(); }

  const MacroNode& node;
  ScopePtr closure;
};

// The special variable `loop`. Reads one item ahead, for `loop.last` and `loop.nextitem`.
struct Loop : NativeObject {
  Loop(const Stmt& statement, ScopePtr scope, Value values, Iterator::Next first, int level)
      : stmt(statement),
        closure(std::move(scope)),
        iterable(std::move(values)),
        next(std::move(first)),
        depth0(level) {}

  bool advance(Value& item);
  const Value& peek();  // Missing at the end
  std::int64_t length();
  // Releases its references after the last iteration; a namespace may keep the object longer.
  void finish();

  bool attribute(Runtime& runtime, std::string_view name, Value& value) override;
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, CallArgs& args) override;
  std::string repr(Runtime& runtime) override;
  std::string_view type_name() const override { return "LoopContext"; }
  void clear() override;

  const Stmt& stmt;
  ScopePtr closure;
  Value iterable;
  Iterator::Next next;
  int depth0 = 0;
  std::int64_t index0 = -1;
  std::int64_t known_length = -1;
  bool has_ended = false;
  Value before = Value::missing();
  Value current = Value::missing();
  Value after = Value::missing();
  Value last_changed = Value::missing();
};

}  // namespace graft::jinja
