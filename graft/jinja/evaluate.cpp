// Evaluates expressions.

#include <algorithm>

#include "graft/jinja/interpreter.h"

namespace graft::jinja {

Value Interpreter::look_up(Symbol symbol) {
  const Value* found = nullptr;
  for (const Scope* scope = scope_.get(); scope != nullptr && found == nullptr;
       scope = scope->parent.get())
    found = scope->find(symbol);
  if (found == nullptr) found = &context_[static_cast<std::size_t>(symbol)];
  if (!found->is(Kind::Missing)) return *found;
  return heap.undefined(str("'", tree_.symbols.name(symbol), "' is undefined"));
}

Value Interpreter::evaluate(const Expr& expr) {
  heap.step();
  line = expr.line;
  switch (expr.kind) {
    case ExprKind::Constant:
      return expr.constant;
    case ExprKind::Captured:
      return *captured_;
    case ExprKind::Name:
      return look_up(expr.symbol);
    default:
      break;
  }
  const DepthScope depth_scope(*this);
  return evaluate_operation(expr);
}

Value Interpreter::evaluate_operation(const Expr& expr) {
  // Errors report the line of the operation, not of its last operand.
  const auto item = [&](std::size_t i) {
    Value value = evaluate(*expr.items[i]);
    line = expr.line;
    return value;
  };
  switch (expr.kind) {
    case ExprKind::Tuple:
    case ExprKind::List:
      return evaluate_sequence(expr);
    case ExprKind::Dict:
      return evaluate_dict(expr);
    case ExprKind::Attribute:
      return get_attribute(*this, item(0), expr.name);
    case ExprKind::Item: {
      const Value object = item(0);
      return get_item(*this, object, item(1));
    }
    case ExprKind::Slice:
      return evaluate_slice(expr);
    case ExprKind::Call:
      return evaluate_call(expr);
    case ExprKind::Filter:
      return evaluate_filter(expr);
    case ExprKind::Test:
      return evaluate_test(expr);
    case ExprKind::Not:
      return Value(!truth(item(0)));
    case ExprKind::Negate:
      return negate(item(0));
    case ExprKind::Plus:
      return plus(item(0));
    case ExprKind::Binary: {
      const Value left = item(0);
      return apply(*this, expr.op, left, item(1));
    }
    case ExprKind::And:
    case ExprKind::Or: {
      Value left = item(0);
      return truth(left) == (expr.kind == ExprKind::Or) ? left : item(1);
    }
    case ExprKind::Concat:
      return evaluate_concat(expr);
    case ExprKind::Compare:
      return evaluate_compare(expr);
    case ExprKind::Conditional:
      return evaluate_conditional(expr);
    default:
      return {};
  }
}

Value Interpreter::evaluate_sequence(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items)
    items.push_back(evaluate(*item));
  return expr.kind == ExprKind::List ? heap.list(std::move(items)) : heap.tuple(std::move(items));
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  auto dict = std::make_shared<Dict>();
  for (std::size_t i = 0; i < expr.items.size(); i += 2) {
    const Value key = evaluate(*expr.items[i]);
    dict->set(heap, key, evaluate(*expr.items[i + 1]));
  }
  return heap.dict(std::move(dict));
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const auto bound = [&](std::size_t i) {
    return expr.items[i] ? evaluate(*expr.items[i]) : Value();
  };
  const Value object = evaluate(*expr.items[0]);
  const Value start = bound(1);
  const Value stop = bound(2);
  const Value step = bound(3);
  line = expr.line;
  return get_slice(*this, object, start, stop, step);
}

CallArgs Interpreter::evaluate_arguments(const Arguments& args) {
  CallArgs call;
  for (const ExprPtr& arg : args.positional)
    call.positional.push_back(evaluate(*arg));
  for (const auto& [name, arg] : args.named)
    call.named.emplace_back(name, evaluate(*arg));
  if (args.star) {
    for (Value& value : collect(*this, evaluate(*args.star)))
      call.positional.push_back(std::move(value));
  }
  if (!args.double_star) return call;
  const Value named = evaluate(*args.double_star);
  if (!named.is(Kind::Dict)) raise("argument after ** must be a mapping, not ", type_name(named));
  for (const auto& [key, value] : named.dict().entries) {
    if (!key.is_text()) raise("keywords must be strings");
    const std::string name(key.str());
    const bool is_repeated =
        std::ranges::any_of(args.named, [&](const auto& arg) { return arg.first == name; });
    if (is_repeated) raise("got multiple values for keyword argument '", name, "'");
    call.named.emplace_back(name, value);
  }
  return call;
}

Value Interpreter::evaluate_call(const Expr& expr, const Value* caller) {
  const Value callee = evaluate(*expr.items[0]);
  CallArgs args = evaluate_arguments(expr.args);
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  line = expr.line;
  Value result = call_value(*this, callee, args);
  line = expr.line;
  return result;
}

Value Interpreter::evaluate_filter(const Expr& expr) {
  const Value value = evaluate(*expr.items[0]);
  CallArgs args = evaluate_arguments(expr.args);
  line = expr.line;
  if (expr.builtin == nullptr) raise("No filter named '", expr.name, "' found.");
  return call_builtin(*this, *expr.builtin, value, args);
}

Value Interpreter::evaluate_test(const Expr& expr) {
  const Value value = evaluate(*expr.items[0]);
  CallArgs args = evaluate_arguments(expr.args);
  line = expr.line;
  if (expr.builtin == nullptr) raise("No test named '", expr.name, "' found.");
  return call_builtin(*this, *expr.builtin, value, args);
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  std::string text;
  for (const ExprPtr& item : expr.items) {
    const Value value = evaluate(*item);
    text += value.is_text() ? std::string(value.str()) : to_str(*this, value);
    heap.check_memory(text.size());
  }
  return heap.text(std::move(text));
}

bool Interpreter::compare(CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::Eq:
      return equals(heap, a, b);
    case CompareOp::Ne:
      return !equals(heap, a, b);
    case CompareOp::Lt:
      return less(heap, a, b);
    case CompareOp::Le:
      return less(heap, a, b) || equals(heap, a, b);
    case CompareOp::Gt:
      return less(heap, b, a);
    case CompareOp::Ge:
      return less(heap, b, a) || equals(heap, a, b);
    case CompareOp::In:
      return contains(*this, b, a);
    case CompareOp::NotIn:
      return !contains(*this, b, a);
  }
  return false;
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.items[0]);
  for (std::size_t i = 0; i < expr.compare.size(); ++i) {
    Value right = evaluate(*expr.items[i + 1]);
    line = expr.line;
    if (!compare(expr.compare[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate_conditional(const Expr& expr) {
  if (truth(evaluate(*expr.items[1]))) return evaluate(*expr.items[0]);
  if (expr.items[2]) return evaluate(*expr.items[2]);
  return heap.undefined(str("the inline if-expression on line ", expr.line,
                            " evaluated to false and no else section was defined."));
}

}  // namespace graft::jinja
