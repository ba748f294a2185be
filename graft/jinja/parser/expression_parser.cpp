#include "graft/jinja/parser/expression_parser.h"

#include <algorithm>
#include <array>

#include "graft/base/error.h"

namespace graft::jinja {
namespace {

// A pair of parentheses takes three levels, so about a hundred can be nested.
constexpr int kMaxDepth = 300;

struct BinaryToken {
  std::string_view text;
  BinaryOp op;
};
constexpr std::array kSums = {BinaryToken{"+", BinaryOp::Add}, BinaryToken{"-", BinaryOp::Sub}};
constexpr std::array kProducts = {BinaryToken{"*", BinaryOp::Mul}, BinaryToken{"/", BinaryOp::Div},
                                  BinaryToken{"//", BinaryOp::FloorDiv},
                                  BinaryToken{"%", BinaryOp::Mod}};

struct CompareToken {
  std::string_view text;
  CompareOp op;
};
constexpr std::array kCompares = {
    CompareToken{"==", CompareOp::Eq}, CompareToken{"!=", CompareOp::Ne},
    CompareToken{"<", CompareOp::Lt},  CompareToken{"<=", CompareOp::Le},
    CompareToken{">", CompareOp::Gt},  CompareToken{">=", CompareOp::Ge}};

}  // namespace

ExpressionParser::DepthScope::DepthScope(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxDepth) parser_.error(str("nested deeper than ", kMaxDepth, " levels"));
}

Token ExpressionParser::next() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::is_name(std::string_view name) const {
  return current().kind == TokenKind::Name && current().text == name;
}

bool ExpressionParser::is_op(std::string_view op) const {
  return current().kind == TokenKind::Operator && current().text == op;
}

bool ExpressionParser::skip_name(std::string_view name) {
  const bool found = is_name(name);
  if (found) next();
  return found;
}

bool ExpressionParser::skip_op(std::string_view op) {
  const bool found = is_op(op);
  if (found) next();
  return found;
}

void ExpressionParser::error(const std::string& what, int line) const {
  fail(tree_.name, ":", line == 0 ? current().line : line, ": ", what);
}

std::string ExpressionParser::describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::Data:
      return "text";
    case TokenKind::VariableBegin:
      return "{{";
    case TokenKind::VariableEnd:
      return "}}";
    case TokenKind::BlockBegin:
      return "{%";
    case TokenKind::BlockEnd:
      return "%}";
    case TokenKind::End:
      return "end of template";
    case TokenKind::String:
      return "string";
    default:
      return token.text;
  }
}

void ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) error(str("expected '", what, "', got '", describe(current()), "'"));
  next();
}

std::string ExpressionParser::expect_name() {
  if (current().kind != TokenKind::Name)
    error(str("expected a name, got '", describe(current()), "'"));
  return next().text;
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!skip_name(name)) error(str("expected '", name, "', got '", describe(current()), "'"));
}

void ExpressionParser::expect_op(std::string_view op) {
  if (!skip_op(op)) error(str("expected '", op, "', got '", describe(current()), "'"));
}

ExprPtr ExpressionParser::make(ExprKind kind, int line) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

void ExpressionParser::add(Expr& parent, ExprPtr item) const {
  if (item) {
    parent.height = std::max(parent.height, item->height + 1);
    if (parent.height > kMaxHeight) error(str("expression deeper than ", kMaxHeight, " levels"));
  }
  parent.items.push_back(std::move(item));
}

ExprPtr ExpressionParser::parse_expression(bool with_condition) {
  const DepthScope depth_scope(*this);
  return with_condition ? parse_condition() : parse_or();
}

ExprPtr ExpressionParser::parse_condition() {
  const DepthScope depth_scope(*this);
  const int line = current().line;
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    ExprPtr node = make(ExprKind::Conditional, line);
    add(*node, std::move(value));
    add(*node, parse_or());
    add(*node, skip_name("else") ? parse_condition() : nullptr);
    value = std::move(node);
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (skip_name("or")) {
    ExprPtr node = make(ExprKind::Or, left->line);
    add(*node, std::move(left));
    add(*node, parse_and());
    left = std::move(node);
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (skip_name("and")) {
    ExprPtr node = make(ExprKind::And, left->line);
    add(*node, std::move(left));
    add(*node, parse_not());
    left = std::move(node);
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const DepthScope depth_scope(*this);
  ExprPtr node = make(ExprKind::Not, next().line);
  add(*node, parse_not());
  return node;
}

bool ExpressionParser::next_compare(CompareOp& op) {
  if (current().kind == TokenKind::Operator) {
    const auto* found = std::ranges::find(kCompares, current().text, &CompareToken::text);
    if (found == kCompares.end()) return false;
    op = found->op;
    next();
    return true;
  }
  if (skip_name("in")) return op = CompareOp::In, true;
  if (!is_name("not") || ahead().kind != TokenKind::Name || ahead().text != "in") return false;
  next();
  next();
  return op = CompareOp::NotIn, true;
}

ExprPtr ExpressionParser::parse_compare() {
  ExprPtr first = parse_sum();
  CompareOp op = CompareOp::Eq;
  if (!next_compare(op)) return first;
  ExprPtr node = make(ExprKind::Compare, first->line);
  add(*node, std::move(first));
  do {
    node->compare.push_back(op);
    add(*node, parse_sum());
  } while (next_compare(op));
  return node;
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (current().kind == TokenKind::Operator) {
    const auto* found = std::ranges::find(kSums, current().text, &BinaryToken::text);
    if (found == kSums.end()) break;
    ExprPtr node = make(ExprKind::Binary, next().line);
    node->op = found->op;
    add(*node, std::move(left));
    add(*node, parse_concat());
    left = std::move(node);
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr first = parse_product();
  if (!is_op("~")) return first;
  ExprPtr node = make(ExprKind::Concat, first->line);
  add(*node, std::move(first));
  while (skip_op("~"))
    add(*node, parse_product());
  return node;
}

ExprPtr ExpressionParser::parse_product() {
  ExprPtr left = parse_power();
  while (current().kind == TokenKind::Operator) {
    const auto* found = std::ranges::find(kProducts, current().text, &BinaryToken::text);
    if (found == kProducts.end()) break;
    ExprPtr node = make(ExprKind::Binary, next().line);
    node->op = found->op;
    add(*node, std::move(left));
    add(*node, parse_power());
    left = std::move(node);
  }
  return left;
}

ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (is_op("**")) {
    ExprPtr node = make(ExprKind::Binary, next().line);
    node->op = BinaryOp::Pow;
    add(*node, std::move(left));
    add(*node, parse_unary(true));
    left = std::move(node);
  }
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filter) {
  const DepthScope depth_scope(*this);
  ExprPtr node;
  if (is_op("-") || is_op("+")) {
    const Token sign = next();
    node = make(sign.text == "-" ? ExprKind::Negate : ExprKind::Plus, sign.line);
    add(*node, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_name() {
  const Token token = next();
  ExprPtr node = make(ExprKind::Constant, token.line);
  if (token.text == "true" || token.text == "True") {
    node->constant = Value(true);
  } else if (token.text == "false" || token.text == "False") {
    node->constant = Value(false);
  } else if (token.text != "none" && token.text != "None") {
    node->kind = ExprKind::Name;
    node->symbol = tree_.symbols.add(token.text);
    note_name(token.text);
  }
  return node;
}

// Adjacent string literals are concatenated.
ExprPtr ExpressionParser::parse_strings() {
  ExprPtr node = make(ExprKind::Constant, current().line);
  std::string text;
  while (current().kind == TokenKind::String)
    text += next().text;
  node->constant = tree_.heap.text(std::move(text));
  return node;
}

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::Name:
      return parse_name();
    case TokenKind::String:
      return parse_strings();
    case TokenKind::Integer:
    case TokenKind::Float: {
      ExprPtr node = make(ExprKind::Constant, token.line);
      node->constant = token.kind == TokenKind::Integer ? Value(token.integer) : Value(token.real);
      next();
      return node;
    }
    default:
      break;
  }
  if (is_op("(")) return parse_parentheses();
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  error(str("unexpected '", describe(token), "'"));
}

ExprPtr ExpressionParser::parse_parentheses() {
  const int line = next().line;
  ExprPtr node;
  if (is_op(")")) {
    node = make(ExprKind::Tuple, line);
  } else {
    node = parse_tuple();
  }
  expect_op(")");
  return node;
}

ExprPtr ExpressionParser::parse_tuple(bool with_condition) {
  const int line = current().line;
  const auto is_end = [&] {
    const TokenKind kind = current().kind;
    return kind == TokenKind::VariableEnd || kind == TokenKind::BlockEnd || is_op(")");
  };
  if (is_end()) error(str("Expected an expression, got '", describe(current()), "'"));
  ExprPtr first = parse_expression(with_condition);
  if (!is_op(",")) return first;
  ExprPtr node = make(ExprKind::Tuple, line);
  add(*node, std::move(first));
  while (skip_op(",") && !is_end())
    add(*node, parse_expression(with_condition));
  return node;
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr node = make(ExprKind::List, next().line);
  while (!is_op("]")) {
    add(*node, parse_expression());
    if (!is_op("]")) expect_op(",");
  }
  next();
  return node;
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr node = make(ExprKind::Dict, next().line);
  while (!is_op("}")) {
    add(*node, parse_expression());
    expect_op(":");
    add(*node, parse_expression());
    if (!is_op("}")) expect_op(",");
  }
  next();
  return node;
}

}  // namespace graft::jinja
