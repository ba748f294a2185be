#include "graft/jinja/interpreter.h"

#include <algorithm>

#include "graft/base/check.h"

namespace graft::jinja {

class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, ScopePtr scope)
      : interpreter_(interpreter), outer_(std::move(interpreter.scope_)) {
    interpreter_.scope_ = std::move(scope);
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  ~ScopeGuard() { interpreter_.scope_ = std::move(outer_); }

 private:
  Interpreter& interpreter_;
  ScopePtr outer_;
};

class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter) : interpreter_(interpreter), outer_(interpreter.out_) {
    interpreter_.out_ = &text_;
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { end(); }

  // Ends the capture and returns the captured text.
  std::string take() {
    end();
    return std::move(text_);
  }

 private:
  void end() {
    if (outer_ == nullptr) return;
    interpreter_.out_ = outer_;
    interpreter_.pending_bytes_ -= text_.size();
    outer_ = nullptr;
  }

  Interpreter& interpreter_;
  std::string* outer_;
  std::string text_;
};

const Value* Scope::find(Symbol symbol) const {
  const auto found = std::ranges::find(variables, symbol, &std::pair<Symbol, Value>::first);
  return found == variables.end() ? nullptr : &found->second;
}

void Scope::set(Symbol symbol, Value value) {
  const auto found = std::ranges::find(variables, symbol, &std::pair<Symbol, Value>::first);
  if (found == variables.end()) {
    variables.emplace_back(symbol, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

Interpreter::Interpreter(const Template& tree,
                         Heap& render_heap,
                         int depth_limit,
                         std::size_t max_output_bytes,
                         std::chrono::system_clock::time_point time)
    : Runtime(render_heap, depth_limit, time),
      tree_(tree),
      context_(tree.symbols.size(), Value::missing()),
      top_(std::make_shared<Scope>(nullptr)),
      scope_(top_),
      max_output_bytes_(max_output_bytes),
      loop_symbol_(tree.symbols.find("loop")) {
  for (const Builtin& function : functions()) {
    const std::string name(function.name);
    if (tree.symbols.find(name) >= 0) define(name, make_function(*this, function, Value()));
  }
}

void Interpreter::define(const std::string& name, Value value) {
  const Symbol symbol = tree_.symbols.find(name);
  if (symbol >= 0) context_[static_cast<std::size_t>(symbol)] = std::move(value);
}

std::string Interpreter::run() {
  std::string out;
  out_ = &out;
  execute(tree_.body);
  return out;
}

void Interpreter::append(std::string_view text) {
  heap.step(1 + text.size() / 64);
  pending_bytes_ += text.size();
  if (pending_bytes_ > max_output_bytes_)
    raise("the output is longer than ", max_output_bytes_, " bytes");
  *out_ += text;
}

void Interpreter::write(const Expr& expr) {
  if (expr.kind == ExprKind::Constant && expr.constant.is_text()) {
    line = expr.line;
    return append(expr.constant.str());
  }
  const Value value = evaluate(expr);
  if (value.is_text()) return append(value.str());
  append(to_str(*this, value));
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const auto& stmt : body) {
    const Flow flow = execute(*stmt);
    if (flow != Flow::Normal) return flow;
  }
  return Flow::Normal;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt) {
  const DepthScope depth_scope(*this);
  heap.step();
  line = stmt.line;
  switch (stmt.kind) {
    case StmtKind::Output:
      for (const ExprPtr& expr : stmt.exprs)
        write(*expr);
      return Flow::Normal;
    case StmtKind::If:
      return execute_if(stmt);
    case StmtKind::For:
      return execute_for(stmt);
    case StmtKind::Set:
      assign(stmt.targets[0], evaluate(*stmt.value));
      return Flow::Normal;
    case StmtKind::SetBlock:
    case StmtKind::Filter:
      return execute_captured(stmt);
    case StmtKind::With:
      return execute_with(stmt);
    case StmtKind::Macro: {
      auto macro = std::make_shared<Macro>(stmt.macro, scope_);
      heap.track_cycle(macro);
      scope_->set(stmt.macro.symbol, heap.native(std::move(macro)));
      return Flow::Normal;
    }
    case StmtKind::Call:
    case StmtKind::Generation:
      execute_call(stmt);
      return Flow::Normal;
    case StmtKind::Block:
      return execute_block(stmt);
    case StmtKind::Do:
      evaluate(*stmt.value);
      return Flow::Normal;
    case StmtKind::Break:
      return Flow::Break;
    case StmtKind::Continue:
      return Flow::Continue;
  }
  return Flow::Normal;
}

Interpreter::Flow Interpreter::execute_if(const Stmt& stmt) {
  for (std::size_t i = 0; i < stmt.exprs.size(); ++i) {
    if (truth(evaluate(*stmt.exprs[i]))) return execute(stmt.bodies[i]);
  }
  return execute(stmt.else_body);
}

// A block sees the variables of the top level, and those of enclosing loops only if it is `scoped`.
Interpreter::Flow Interpreter::execute_block(const Stmt& stmt) {
  const ScopeGuard scope_guard(*this, std::make_shared<Scope>(stmt.scoped ? scope_ : top_));
  return execute(stmt.body);
}

Interpreter::Flow Interpreter::execute_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const ExprPtr& expr : stmt.exprs)
    values.push_back(evaluate(*expr));
  const ScopeGuard scope_guard(*this, std::make_shared<Scope>(scope_));
  for (std::size_t i = 0; i < values.size(); ++i)
    assign(stmt.targets[i], values[i]);
  return execute(stmt.body);
}

// {% set x %}…{% endset %} and {% filter f %}…{% endfilter %}.
Interpreter::Flow Interpreter::execute_captured(const Stmt& stmt) {
  Value value;
  {
    const ScopeGuard scope_guard(*this, std::make_shared<Scope>(scope_));
    Capture capture(*this);
    const Flow flow = execute(stmt.body);
    if (flow != Flow::Normal) return flow;
    value = heap.text(capture.take());
    if (stmt.value) {
      const Value text = value;
      const Value* outer = std::exchange(captured_, &text);
      value = evaluate(*stmt.value);
      captured_ = outer;
    }
  }
  if (stmt.kind == StmtKind::SetBlock) {
    assign(stmt.targets[0], value);
  } else {
    append(to_str(*this, value));
  }
  return Flow::Normal;
}

void Interpreter::execute_call(const Stmt& stmt) {
  const auto macro = std::make_shared<Macro>(stmt.macro, scope_);
  Value result;
  if (stmt.kind == StmtKind::Generation) {
    CallArgs none;
    result = call_macro(*macro, none);
  } else {
    const Value caller = heap.native(macro);
    result = evaluate_call(*stmt.value, &caller);
  }
  // A template kept a reference to the caller, so it may be part of a cycle.
  if (macro.use_count() > 1) heap.track_cycle(macro);
  append(to_str(*this, result));
}

void Interpreter::assign(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::Name:
      scope_->set(target.symbol, value);
      return;
    case Target::Kind::Attribute: {
      const Value object = look_up(target.symbol);
      line = target.line;
      auto* space = object.is(Kind::Native) ? dynamic_cast<Namespace*>(&object.native()) : nullptr;
      if (space == nullptr) raise("cannot assign attribute on non-namespace object");
      space->attributes.set(heap, heap.text(target.attribute), value);
      return;
    }
    case Target::Kind::Tuple:
      break;
  }
  const Iterator::Next next = iterate(*this, value);
  Value item;
  for (std::size_t i = 0; i < target.items.size(); ++i) {
    if (!next(item))
      raise("not enough values to unpack (expected ", target.items.size(), ", got ", i, ")");
    assign(target.items[i], item);
  }
  if (next(item)) raise("too many values to unpack (expected ", target.items.size(), ")");
}

Interpreter::Flow Interpreter::execute_for(const Stmt& stmt) {
  const Value iterable = evaluate(*stmt.value);
  if (!stmt.recursive) return run_loop(stmt, scope_, iterable, 0);
  Capture capture(*this);
  run_loop(stmt, scope_, iterable, 0);
  append(capture.take());
  return Flow::Normal;
}

// `for x in y if test`: the test is evaluated when the loop reaches the item.
Iterator::Next Interpreter::filtered(const Stmt& stmt,
                                     const ScopePtr& closure,
                                     Iterator::Next next) {
  return [this, &stmt, closure, next = std::move(next)](Value& item) {
    while (next(item)) {
      heap.step();
      const ScopeGuard scope_guard(*this, std::make_shared<Scope>(closure));
      assign(stmt.targets[0], item);
      if (truth(evaluate(*stmt.test))) return true;
    }
    return false;
  };
}

Interpreter::Flow Interpreter::run_loop(const Stmt& stmt,
                                        const ScopePtr& closure,
                                        const Value& iterable,
                                        int depth0) {
  line = stmt.line;
  Iterator::Next next = iterate(*this, iterable);
  // With a test the length is unknown until the end.
  Value sized = iterable;
  if (stmt.test) {
    next = filtered(stmt, closure, std::move(next));
    sized = Value();
  }
  const auto loop =
      std::make_shared<Loop>(stmt, closure, std::move(sized), std::move(next), depth0);
  heap.charge(*loop, sizeof(Loop));
  const bool completed = run_iterations(stmt, closure, *loop);
  loop->finish();
  if (completed || stmt.else_body.empty()) return Flow::Normal;
  const ScopeGuard scope_guard(*this, std::make_shared<Scope>(closure));
  return execute(stmt.else_body);
}

// As in Jinja, `else` also runs when every iteration ended with break or continue.
bool Interpreter::run_iterations(const Stmt& stmt, const ScopePtr& closure, Loop& loop) {
  bool completed = false;
  Value item;
  while (loop.advance(item)) {
    heap.step();
    const ScopeGuard scope_guard(*this, std::make_shared<Scope>(closure));
    assign(stmt.targets[0], item);
    if (stmt.uses_loop && loop_symbol_ >= 0)
      scope_->set(loop_symbol_, Value(Kind::Native, loop.shared_from_this()));
    const Flow flow = execute(stmt.body);
    if (flow == Flow::Break) break;
    completed = completed || flow == Flow::Normal;
  }
  return completed;
}

Value Interpreter::call_loop(const Loop& loop, const Value& iterable) {
  if (!loop.stmt.recursive)
    raise("The loop must have the 'recursive' marker to be called recursively.");
  if (!loop.closure) raise("a finished loop cannot be called");
  Capture capture(*this);
  run_loop(loop.stmt, loop.closure, iterable, loop.depth0 + 1);
  return heap.text(capture.take());
}

// Binds arguments in the order of Jinja's Macro: positional, named, caller, kwargs, varargs.
Value Interpreter::call_macro(const Macro& macro, CallArgs& args) {
  const MacroNode& node = macro.node;
  GRAFT_CHECK(macro.closure != nullptr, "a macro was called after its template ended");
  const auto scope = std::make_shared<Scope>(macro.closure);
  const std::size_t num_params = node.params.size();
  const auto pop_named = [&](std::string_view name) {
    const auto found = std::ranges::find(
        args.named, name, [](const auto& arg) { return std::string_view(arg.first); });
    if (found == args.named.end()) return Value::missing();
    Value value = std::move(found->second);
    args.named.erase(found);
    return value;
  };
  bool found_caller = false;
  for (std::size_t i = 0; i < num_params; ++i) {
    const bool is_positional = i < args.positional.size();
    scope->set(node.params[i], is_positional ? args.positional[i] : pop_named(node.param_names[i]));
    found_caller = found_caller || node.param_names[i] == "caller";
  }
  if (node.uses_caller && !found_caller) {
    Value caller = pop_named("caller");
    if (caller.is(Kind::Missing) || caller.is_none()) caller = heap.undefined("No caller defined");
    scope->set(tree_.symbols.find("caller"), std::move(caller));
  }
  const std::string title = node.name.empty() ? "None" : in_quotes(node.name);
  if (node.uses_kwargs) {
    CallArgs rest;
    rest.named = std::move(args.named);
    scope->set(tree_.symbols.find("kwargs"), heap.dict(dict_of(*this, rest)));
  } else if (!args.named.empty()) {
    raise("macro ", title, " takes no keyword argument ", in_quotes(args.named[0].first));
  }
  if (node.uses_varargs) {
    const std::size_t used = std::min(num_params, args.positional.size());
    scope->set(tree_.symbols.find("varargs"),
               heap.tuple({args.positional.begin() + static_cast<std::ptrdiff_t>(used),
                           args.positional.end()}));
  } else if (args.positional.size() > num_params) {
    raise("macro ", title, " takes not more than ", num_params, " argument(s)");
  }
  return run_macro(node, scope);
}

Value Interpreter::run_macro(const MacroNode& node, const ScopePtr& scope) {
  const ScopeGuard scope_guard(*this, scope);
  const std::size_t num_required = node.params.size() - node.defaults.size();
  for (std::size_t i = 0; i < node.params.size(); ++i) {
    if (!scope->find(node.params[i])->is(Kind::Missing)) continue;
    scope->set(node.params[i],
               i >= num_required
                   ? evaluate(*node.defaults[i - num_required])
                   : heap.undefined(str("parameter '", node.param_names[i], "' was not provided")));
  }
  Capture capture(*this);
  execute(node.body);
  return heap.text(capture.take());
}

}  // namespace graft::jinja
