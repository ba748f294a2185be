// Parses what follows an expression: subscripts, calls, filters, tests.

#include <algorithm>

#include "graft/jinja/parser/expression_parser.h"

namespace graft::jinja {

ExprPtr ExpressionParser::parse_postfix(ExprPtr node) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_op("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_filters(ExprPtr node) {
  while (true) {
    if (skip_op("|")) {
      node = parse_filter(std::move(node));
    } else if (is_name("is")) {
      node = parse_test(std::move(node));
    } else if (is_op("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const Token token = next();
  if (token.text == "[") return parse_slice(std::move(object));
  const Token name = next();
  ExprPtr node = make(ExprKind::Attribute, token.line);
  add(*node, std::move(object));
  if (name.kind == TokenKind::Name) {
    node->name = name.text;
    return node;
  }
  if (name.kind != TokenKind::Integer) error("expected name or number", name.line);
  node->kind = ExprKind::Item;
  ExprPtr index = make(ExprKind::Constant, name.line);
  index->constant = Value(name.integer);
  add(*node, std::move(index));
  return node;
}

// Parses after the opening bracket: a key, or start:stop:step.
ExprPtr ExpressionParser::parse_slice(ExprPtr object) {
  const int line = current().line;
  const auto at_end = [this] { return is_op("]") || is_op(","); };
  ExprPtr start;
  if (is_op("]")) {
    start = make(ExprKind::Tuple, line);  // x[] is x[()]
  } else if (!is_op(":")) {
    start = parse_expression();
  }
  if (!is_op(":")) {
    ExprPtr node = make(ExprKind::Item, line);
    add(*node, std::move(object));
    if (is_op(",")) {
      ExprPtr key = make(ExprKind::Tuple, line);
      add(*key, std::move(start));
      while (skip_op(","))
        add(*key, parse_expression());
      start = std::move(key);
    }
    add(*node, std::move(start));
    expect_op("]");
    return node;
  }
  ExprPtr node = make(ExprKind::Slice, line);
  add(*node, std::move(object));
  add(*node, std::move(start));
  next();
  add(*node, is_op(":") || at_end() ? nullptr : parse_expression());
  const bool has_step = skip_op(":") && !at_end();
  add(*node, has_step ? parse_expression() : nullptr);
  expect_op("]");
  return node;
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  ExprPtr node = make(ExprKind::Call, current().line);
  add(*node, std::move(callee));
  parse_arguments(*node);
  return node;
}

void ExpressionParser::parse_arguments(Expr& call) {
  expect_op("(");
  while (!is_op(")")) {
    parse_argument(call);
    if (!is_op(")")) expect_op(",");
  }
  next();
}

void ExpressionParser::parse_argument(Expr& call) {
  Arguments& args = call.args;
  const auto parse_value = [&] {
    ExprPtr value = parse_expression();
    call.height = std::max(call.height, value->height + 1);
    if (call.height > kMaxHeight) error(str("expression deeper than ", kMaxHeight, " levels"));
    return value;
  };
  const auto ensure = [&](bool is_allowed) {
    if (!is_allowed) error("invalid syntax for function call expression");
  };
  if (skip_op("*")) {
    ensure(!args.star && !args.double_star);
    args.star = parse_value();
  } else if (skip_op("**")) {
    ensure(!args.double_star);
    args.double_star = parse_value();
  } else if (current().kind == TokenKind::Name && ahead().kind == TokenKind::Operator &&
             ahead().text == "=") {
    ensure(!args.double_star);
    const std::string name = next().text;
    next();
    const bool is_repeated =
        std::ranges::any_of(args.named, [&](const auto& arg) { return arg.first == name; });
    if (is_repeated) error(str("keyword argument repeated: ", name));
    args.named.emplace_back(name, parse_value());
  } else {
    ensure(!args.star && !args.double_star && args.named.empty());
    args.positional.push_back(parse_value());
  }
}

std::string ExpressionParser::dotted_name() {
  std::string name = expect_name();
  while (skip_op("."))
    name += "." + expect_name();
  return name;
}

ExprPtr ExpressionParser::parse_filter(ExprPtr operand) {
  ExprPtr node = make(ExprKind::Filter, current().line);
  node->name = dotted_name();
  node->builtin = find_filter(node->name);
  add(*node, std::move(operand));
  if (is_op("(")) parse_arguments(*node);
  return node;
}

ExprPtr ExpressionParser::parse_block_filters(bool starts_inline) {
  if (!starts_inline && !is_op("|")) return nullptr;
  ExprPtr node = make(ExprKind::Captured, current().line);
  if (starts_inline) node = parse_filter(std::move(node));
  while (skip_op("|"))
    node = parse_filter(std::move(node));
  return node;
}

ExprPtr ExpressionParser::parse_test(ExprPtr operand) {
  const int line = next().line;
  const bool is_negated = skip_name("not");
  ExprPtr node = make(ExprKind::Test, line);
  node->name = dotted_name();
  node->builtin = find_test(node->name);
  add(*node, std::move(operand));
  const TokenKind kind = current().kind;
  const bool has_operand = kind == TokenKind::Name || kind == TokenKind::String ||
                           kind == TokenKind::Integer || kind == TokenKind::Float || is_op("[") ||
                           is_op("{");
  if (is_op("(")) {
    parse_arguments(*node);
  } else if (has_operand && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) error("You cannot chain multiple tests with is");
    ExprPtr argument = parse_postfix(parse_primary());
    node->height = std::max(node->height, argument->height + 1);
    node->args.positional.push_back(std::move(argument));
  }
  if (!is_negated) return node;
  ExprPtr negation = make(ExprKind::Not, line);
  add(*negation, std::move(node));
  return negation;
}

}  // namespace graft::jinja
