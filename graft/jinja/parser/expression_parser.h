// Parses Jinja expressions. The statement parser (parser.cpp) derives from it and shares its
// tokens.

#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "graft/jinja/parser/ast.h"
#include "graft/jinja/parser/lexer.h"

namespace graft::jinja {

class ExpressionParser {
 public:
  ExpressionParser(Template& tree, std::vector<Token> tokens)
      : tree_(tree), tokens_(std::move(tokens)) {}
  ExpressionParser(const ExpressionParser&) = delete;
  ExpressionParser& operator=(const ExpressionParser&) = delete;
  virtual ~ExpressionParser() = default;

  ExprPtr parse_expression(bool with_condition = true);
  // An expression, or a tuple without parentheses.
  ExprPtr parse_tuple(bool with_condition = true);
  // Filters applied to the output of a block: "| upper | trim", or with `starts_inline`
  // "upper | trim". Null when there are none.
  ExprPtr parse_block_filters(bool starts_inline);

 protected:
  // Limits the recursion of nested parentheses, blocks and signs; a level is a dozen C++ calls.
  class DepthScope {
   public:
    explicit DepthScope(ExpressionParser& parser);
    DepthScope(const DepthScope&) = delete;
    DepthScope& operator=(const DepthScope&) = delete;
    ~DepthScope() { --parser_.depth_; }

   private:
    ExpressionParser& parser_;
  };

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  bool is_name(std::string_view name) const;
  bool is_op(std::string_view op) const;
  bool skip_name(std::string_view name);
  bool skip_op(std::string_view op);
  std::string expect_name();
  void expect_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect(TokenKind kind, std::string_view what);
  [[noreturn]] void error(const std::string& what, int line = 0) const;
  static std::string describe(const Token& token);
  static ExprPtr make(ExprKind kind, int line);
  // Adds an operand (null for an omitted one) and updates the height.
  void add(Expr& parent, ExprPtr item) const;

  // Called for every variable that is read, to find uses of `loop`, `caller`, `kwargs`, `varargs`.
  virtual void note_name(const std::string& /*name*/) {}

  Template& tree_;

 private:
  ExprPtr parse_condition();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  bool next_compare(CompareOp& op);
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_strings();
  ExprPtr parse_parentheses();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters(ExprPtr node);
  ExprPtr parse_filter(ExprPtr operand);
  ExprPtr parse_test(ExprPtr operand);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_slice(ExprPtr object);
  ExprPtr parse_call(ExprPtr callee);
  void parse_arguments(Expr& call);
  void parse_argument(Expr& call);
  std::string dotted_name();

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace graft::jinja
