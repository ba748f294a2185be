// Parses statements: {% … %}.

#include <algorithm>
#include <array>
#include <functional>

#include "graft/base/error.h"
#include "graft/jinja/parser/expression_parser.h"

namespace graft::jinja {
namespace {

using StmtPtr = std::unique_ptr<Stmt>;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body parse() {
    Body body = parse_body({});
    if (current().kind != TokenKind::End) error(str("unexpected '", describe(current()), "'"));
    return body;
  }

 private:
  using EndNames = std::vector<std::string_view>;
  struct Tag {
    std::string_view name;
    StmtPtr (Parser::*parse)();
  };
  struct Refused {
    std::string_view name;
    std::string_view why;
  };

  static StmtPtr make_stmt(StmtKind kind, int line) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }

  // Parses until a tag with one of the names in `ends`, whose name is then the current token.
  // Without names, until the end of the template.
  Body parse_body(const EndNames& ends) {
    Body body;
    StmtPtr output;
    const auto flush = [&] {
      if (output) body.push_back(std::move(output));
    };
    const auto add_output = [&](ExprPtr expr) {
      if (!output) output = make_stmt(StmtKind::Output, expr->line);
      output->exprs.push_back(std::move(expr));
    };
    while (current().kind != TokenKind::End) {
      const Token token = next();
      if (token.kind == TokenKind::Data) {
        ExprPtr data = make(ExprKind::Constant, token.line);
        data->constant = tree_.heap.text(token.text);
        add_output(std::move(data));
      } else if (token.kind == TokenKind::VariableBegin) {
        add_output(parse_tuple());
        expect(TokenKind::VariableEnd, "}}");
      } else {
        flush();
        const bool is_end = std::ranges::any_of(ends, [&](auto name) { return is_name(name); });
        if (is_end) return body;
        body.push_back(parse_statement());
        expect(TokenKind::BlockEnd, "%}");
      }
    }
    flush();
    if (!ends.empty()) error(str("the template ends without {% ", ends.back(), " %}"));
    return body;
  }

  // Parses "%}" and the body, up to the name of the tag that ends it.
  Body parse_block(const EndNames& ends) {
    skip_op(":");
    expect(TokenKind::BlockEnd, "%}");
    return parse_body(ends);
  }

  Body parse_whole_block(std::string_view end) {
    Body body = parse_block({end});
    next();
    return body;
  }

  StmtPtr parse_statement() {
    // clang-format off
    static constexpr std::array kTags = {
        Tag{"for", &Parser::parse_for},
        Tag{"if", &Parser::parse_if},
        Tag{"set", &Parser::parse_set},
        Tag{"with", &Parser::parse_with},
        Tag{"macro", &Parser::parse_macro},
        Tag{"call", &Parser::parse_call_block},
        Tag{"filter", &Parser::parse_filter_block},
        Tag{"generation", &Parser::parse_generation},
        Tag{"block", &Parser::parse_named_block},
        Tag{"print", &Parser::parse_print},
        Tag{"do", &Parser::parse_do},
        Tag{"break", &Parser::parse_break},
        Tag{"continue", &Parser::parse_continue},
    };
    static constexpr std::array kRefused = {
        Refused{"import", "templates cannot read other files"},
        Refused{"from", "templates cannot read other files"},
        Refused{"include", "templates cannot read other files"},
        Refused{"extends", "templates cannot read other files"},
        Refused{"autoescape", "chat templates are not escaped"},
    };
    // clang-format on
    const DepthScope depth_scope(*this);
    if (current().kind != TokenKind::Name) error("tag name expected");
    const auto* tag = std::ranges::find(kTags, current().text, &Tag::name);
    if (tag != kTags.end()) return std::invoke(tag->parse, this);
    const auto* refused = std::ranges::find(kRefused, current().text, &Refused::name);
    if (refused != kRefused.end()) error(str("{% ", refused->name, " %}: ", refused->why));
    error(str("Encountered unknown tag '", current().text, "'."));
  }

  StmtPtr parse_if() {
    StmtPtr stmt = make_stmt(StmtKind::If, current().line);
    do {
      next();
      stmt->exprs.push_back(parse_tuple(false));
      stmt->bodies.push_back(parse_block({"elif", "else", "endif"}));
    } while (is_name("elif"));
    if (next().text == "else") stmt->else_body = parse_whole_block("endif");
    return stmt;
  }

  StmtPtr parse_for() {
    StmtPtr stmt = make_stmt(StmtKind::For, next().line);
    stmt->targets.push_back(parse_target(false));
    expect_name("in");
    stmt->value = parse_tuple(false);
    if (skip_name("if")) stmt->test = parse_expression();
    stmt->recursive = skip_name("recursive");
    loops_.push_back(stmt.get());
    stmt->body = parse_block({"endfor", "else"});
    loops_.pop_back();
    if (next().text == "else") stmt->else_body = parse_whole_block("endfor");
    stmt->uses_loop = stmt->uses_loop || stmt->recursive;
    return stmt;
  }

  StmtPtr parse_set() {
    StmtPtr stmt = make_stmt(StmtKind::Set, next().line);
    stmt->targets.push_back(parse_target(true));
    if (skip_op("=")) {
      stmt->value = parse_tuple();
      return stmt;
    }
    stmt->kind = StmtKind::SetBlock;
    stmt->value = parse_block_filters(false);
    stmt->body = parse_whole_block("endset");
    return stmt;
  }

  StmtPtr parse_with() {
    StmtPtr stmt = make_stmt(StmtKind::With, next().line);
    while (current().kind != TokenKind::BlockEnd) {
      if (!stmt->targets.empty()) expect_op(",");
      stmt->targets.push_back(parse_target(false));
      expect_op("=");
      stmt->exprs.push_back(parse_expression());
    }
    stmt->body = parse_whole_block("endwith");
    return stmt;
  }

  StmtPtr parse_macro() {
    StmtPtr stmt = make_stmt(StmtKind::Macro, next().line);
    stmt->macro.name = expect_name();
    stmt->macro.symbol = tree_.symbols.add(stmt->macro.name);
    parse_signature(stmt->macro);
    parse_macro_body(stmt->macro, "endmacro");
    return stmt;
  }

  StmtPtr parse_call_block() {
    StmtPtr stmt = make_stmt(StmtKind::Call, next().line);
    if (is_op("(")) parse_signature(stmt->macro);
    stmt->value = parse_expression();
    if (stmt->value->kind != ExprKind::Call) error("expected call", stmt->line);
    parse_macro_body(stmt->macro, "endcall");
    return stmt;
  }

  // Transformers marks the assistant's text with it. Rendered, it behaves like a call block.
  StmtPtr parse_generation() {
    StmtPtr stmt = make_stmt(StmtKind::Generation, next().line);
    parse_macro_body(stmt->macro, "endgeneration");
    return stmt;
  }

  StmtPtr parse_filter_block() {
    StmtPtr stmt = make_stmt(StmtKind::Filter, next().line);
    stmt->value = parse_block_filters(true);
    stmt->body = parse_whole_block("endfilter");
    return stmt;
  }

  StmtPtr parse_named_block() {
    StmtPtr stmt = make_stmt(StmtKind::Block, next().line);
    const std::string name = expect_name();
    stmt->scoped = skip_name("scoped");
    if (std::ranges::count(block_names_, name) > 0)
      error(str("block '", name, "' defined twice"), stmt->line);
    block_names_.push_back(name);
    stmt->body = parse_whole_block("endblock");
    skip_name(name);
    return stmt;
  }

  StmtPtr parse_print() {
    StmtPtr stmt = make_stmt(StmtKind::Output, next().line);
    while (current().kind != TokenKind::BlockEnd) {
      if (!stmt->exprs.empty()) expect_op(",");
      stmt->exprs.push_back(parse_expression());
    }
    return stmt;
  }

  StmtPtr parse_do() {
    StmtPtr stmt = make_stmt(StmtKind::Do, next().line);
    stmt->value = parse_tuple();
    return stmt;
  }

  StmtPtr parse_break() { return make_stmt(StmtKind::Break, next().line); }
  StmtPtr parse_continue() { return make_stmt(StmtKind::Continue, next().line); }

  // Parses a, (a, b), or a, b; and a.b if `with_attribute`. A comma must be followed by a target:
  // `for a, in b` is an error, as it is in Jinja.
  Target parse_target(bool with_attribute) {
    const DepthScope depth_scope(*this);
    const int line = current().line;
    const auto is_end = [&] { return current().kind == TokenKind::BlockEnd || is_op(")"); };
    Target first = parse_one_target(with_attribute);
    if (!is_op(",")) return first;
    Target tuple;
    tuple.kind = Target::Kind::Tuple;
    tuple.line = line;
    tuple.items.push_back(std::move(first));
    while (skip_op(",") && !is_end())
      tuple.items.push_back(parse_one_target(with_attribute));
    return tuple;
  }

  Target parse_one_target(bool with_attribute) {
    if (skip_op("(")) {
      Target inner = parse_target(with_attribute);
      expect_op(")");
      return inner;
    }
    static constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none",
                                                                   "True", "False", "None"};
    Target target;
    target.line = current().line;
    const std::string name = expect_name();
    if (std::ranges::count(kConstants, name) > 0) error(str("can't assign to '", name, "'"));
    target.symbol = tree_.symbols.add(name);
    if (with_attribute && skip_op(".")) {
      target.kind = Target::Kind::Attribute;
      target.attribute = expect_name();
    }
    return target;
  }

  void parse_signature(MacroNode& macro) {
    expect_op("(");
    while (!is_op(")")) {
      if (!macro.params.empty()) expect_op(",");
      const std::string name = expect_name();
      if (std::ranges::count(macro.param_names, name) > 0)
        error(str("duplicate argument '", name, "' in a macro"));
      if (skip_op("=")) {
        macro.defaults.push_back(parse_expression());
      } else if (!macro.defaults.empty()) {
        error("non-default argument follows default argument");
      }
      macro.params.push_back(tree_.symbols.add(name));
      macro.param_names.push_back(name);
    }
    next();
  }

  void parse_macro_body(MacroNode& macro, std::string_view end) {
    macros_.push_back(&macro);
    macro.body = parse_whole_block(end);
    macros_.pop_back();
    check_special_params(macro);
  }

  // A declared parameter named kwargs, varargs or caller is an ordinary one.
  void check_special_params(MacroNode& macro) const {
    const auto has = [&](std::string_view name) {
      return std::ranges::count(macro.param_names, name) > 0;
    };
    if (has("kwargs")) macro.uses_kwargs = false;
    if (has("varargs")) macro.uses_varargs = false;
    if (!macro.uses_caller || !has("caller")) return;
    const auto idx = std::ranges::find(macro.param_names, "caller") - macro.param_names.begin();
    const auto num_required = macro.params.size() - macro.defaults.size();
    if (static_cast<std::size_t>(idx) < num_required)
      error("the special \"caller\" argument must be omitted or be given a default");
  }

  void note_name(const std::string& name) override {
    for (MacroNode* macro : macros_) {
      macro->uses_caller = macro->uses_caller || name == "caller";
      macro->uses_kwargs = macro->uses_kwargs || name == "kwargs";
      macro->uses_varargs = macro->uses_varargs || name == "varargs";
    }
    if (name != "loop") return;
    for (Stmt* loop : loops_)
      loop->uses_loop = true;
  }

  std::vector<MacroNode*> macros_;  // whose bodies are being parsed, innermost last
  std::vector<Stmt*> loops_;        // likewise
  std::vector<std::string> block_names_;
};

}  // namespace

Symbol SymbolTable::add(const std::string& name) {
  const auto [entry, is_new] = symbols_.try_emplace(name, static_cast<Symbol>(names_.size()));
  if (is_new) names_.push_back(name);
  return entry->second;
}

Symbol SymbolTable::find(const std::string& name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? -1 : found->second;
}

std::unique_ptr<const Template> parse_template(std::string_view source, const std::string& name) {
  auto tree = std::make_unique<Template>(name);
  Parser parser(*tree, tokenize(source, name));
  tree->body = parser.parse();
  check_template(*tree);
  return tree;
}

}  // namespace graft::jinja
