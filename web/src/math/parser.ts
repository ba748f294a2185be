// The part of LaTeX's math mode that models write, as MathML: scripts, fractions, roots, accents, delimiters,
// matrices, cases, text, alphabets. Anything else fails, and the caller shows the source.

import { element, type Element, type MathTag, type Tree } from "../tree";
import { accents, bigOperators, functions, integrals, letters, operators, spaces, styled, styles, under, type Style } from "./symbols";

class Unknown extends Error {}

const longest = 8000; // characters
const deepest = 50;
const token = /\\[A-Za-z]+|\\[\s\S]|\s+|\d+(?:[.,]\d+)*|[\s\S]/gu;

function tokensOf(latex: string): string[] {
  return latex.replace(/(?<!\\)%[^\n]*/g, "").match(token) ?? [];
}

const make = (tag: MathTag, children: Tree[] = [], attributes?: Record<string, string>): Element => element(tag, children, attributes ? { attributes } : {});
const row = (children: Tree[]): Tree => (children.length === 1 ? children[0]! : make("mrow", children));
const op = (text: string, attributes?: Record<string, string>): Element => make("mo", [text], attributes);
const space = (em: number): Element => make("mspace", [], { width: `${em}em` });

const matrices: Record<string, [string, string]> = {
  matrix: ["", ""], smallmatrix: ["", ""], array: ["", ""], pmatrix: ["(", ")"], bmatrix: ["[", "]"], Bmatrix: ["{", "}"], vmatrix: ["|", "|"], Vmatrix: ["‖", "‖"],
  cases: ["{", ""], rcases: ["", "}"],
};
const alignments = /^(?:aligned|align|alignat|alignedat|equation|gather|gathered|multline|split)\*?$/;
// Change only the size or the placement.
const ignored = new Set(["displaystyle", "textstyle", "scriptstyle", "limits", "nolimits", "nonumber", "notag", "hfill"]);
const sizes = /^[bB]igg?[lrm]?$/;

class Parser {
  private at = 0;
  private depth = 0;

  constructor(private readonly tokens: string[]) {}

  // Everything up to one of the tokens `ends`, which is not consumed.
  list(ends: string[]): Tree[] {
    if (++this.depth > deepest) throw new Unknown("too deep");
    const out: Tree[] = [];
    for (;;) {
      this.skipBlanks();
      const next = this.tokens[this.at];
      if (next === undefined) {
        if (ends.length > 0) throw new Unknown(`no ${ends[0]}`);
        break;
      }
      if (ends.includes(next)) break;
      const atom = this.atom();
      if (atom) out.push(this.scripts(atom));
    }
    --this.depth;
    return out;
  }

  private skipBlanks(): void {
    while (/^\s+$/.test(this.tokens[this.at] ?? "")) ++this.at;
  }

  private next(): string {
    this.skipBlanks();
    const found = this.tokens[this.at++];
    if (found === undefined) throw new Unknown("end");
    return found;
  }

  private peek(): string | undefined {
    this.skipBlanks();
    return this.tokens[this.at];
  }

  private expect(wanted: string): void {
    if (this.next() !== wanted) throw new Unknown(wanted);
  }

  // The argument of a command: a group or one token.
  private argument(): Tree {
    if (this.peek() === "{") return row(this.group());
    // In \frac12 the digits are one token.
    const digits = this.peek() ?? "";
    if (/^\d\d/.test(digits)) {
      this.tokens.splice(this.at, 1, digits[0]!, digits.slice(1));
    }
    const atom = this.atom();
    if (!atom) throw new Unknown("argument");
    return atom;
  }

  private group(): Tree[] {
    this.expect("{");
    const inside = this.list(["}"]);
    this.expect("}");
    return inside;
  }

  // The characters of a group that is text.
  private text(): string {
    this.expect("{");
    let out = "";
    for (let open = 1; ; ) {
      const part = this.tokens[this.at++];
      if (part === undefined) throw new Unknown("}");
      if (part === "{") ++open;
      else if (part === "}" && --open === 0) return out;
      else if (part !== "}" && part !== "$") out += /^\\[^A-Za-z]$/.test(part) ? part.slice(1) : part;
    }
  }

  private atom(): Tree | undefined {
    const next = this.next();
    if (next.length > 1 && next.startsWith("\\")) return this.command(next.slice(1));
    if (next === "{") {
      --this.at;
      return make("mrow", this.group());
    }
    if (/^\d/.test(next)) return make("mn", [next]);
    if (/^\p{L}$/u.test(next)) return make("mi", [next]);
    if (next === "^" || next === "_") {
      --this.at;
      return make("mrow"); // scripts without a base
    }
    if (next === "'") {
      --this.at;
      return make("mrow");
    }
    if (next === "~") return space(0.25);
    if (next === "}" || next === "&" || next === "$" || next === "\\") throw new Unknown(next);
    if (/^[([{|]$/.test(next) || /^[)\]}]$/.test(next)) return op(next, { stretchy: "false" });
    return op(next === "-" ? "−" : next === "*" ? "∗" : next);
  }

  private scripts(base: Tree): Tree {
    let low: Tree | undefined;
    let high: Tree[] = [];
    for (;;) {
      const next = this.peek();
      if (next === "'") {
        ++this.at;
        high.push(op("′"));
      } else if (next === "^" && !high.some((tree) => typeof tree === "string" || tree.tag !== "mo")) {
        ++this.at;
        high = [...high, this.argument()];
      } else if (next === "_" && !low) {
        ++this.at;
        low = this.argument();
      } else if (next === "\\limits" || next === "\\nolimits") {
        ++this.at;
      } else {
        break;
      }
    }
    if (!low && high.length === 0) return base;
    const isOver = typeof base !== "string" && (base.attributes?.movablelimits === "true" || base.class === "limits");
    if (low && high.length > 0) return make(isOver ? "munderover" : "msubsup", [base, low, row(high)]);
    if (low) return make(isOver ? "munder" : "msub", [base, low]);
    return make(isOver ? "mover" : "msup", [base, row(high)]);
  }

  private command(name: string): Tree | undefined {
    return this.symbol(name) ?? this.structure(name) ?? this.decoration(name) ?? this.rest(name);
  }

  private symbol(name: string): Tree | undefined {
    const letter = letters.get(name);
    if (letter) return make("mi", [letter], /^[Α-Ω∞∅…⋯]/.test(letter) ? { mathvariant: "normal" } : undefined);
    const operator = operators.get(name);
    if (operator) return op(operator, /^[{}|‖⟨⟩⌊⌋⌈⌉[\]]$/.test(operator) ? { stretchy: "false" } : undefined);
    const big = bigOperators.get(name);
    if (big) return op(big, { movablelimits: "true", ...(big.length > 1 ? { lspace: "0", rspace: "0.167em" } : {}) });
    const integral = integrals.get(name);
    if (integral) return op(integral);
    if (functions.has(name)) return make("mrow", [make("mi", [name]), op("\u2061")]);
    const width = spaces[/^\s$/.test(name) ? " " : name];
    return width === undefined ? undefined : space(width);
  }

  private structure(name: string): Tree | undefined {
    if (/^[dtc]?frac$/.test(name)) return make("mfrac", [this.argument(), this.argument()]);
    if (/^[dt]?binom$/.test(name)) {
      const inner = make("mfrac", [this.argument(), this.argument()], { linethickness: "0" });
      return make("mrow", [op("("), inner, op(")")]);
    }
    if (name === "sqrt") return this.root();
    if (name === "left") return this.fenced();
    if (name === "begin") return this.environment();
    if (name === "overset" || name === "stackrel") {
      const above = this.argument();
      return make("mover", [this.argument(), above]);
    }
    if (name === "underset") {
      const below = this.argument();
      return make("munder", [this.argument(), below]);
    }
    if (name === "xrightarrow") return make("mover", [op("→"), this.argument()]);
    if (name === "pmod") return make("mrow", [space(0.5), op("("), make("mi", ["mod"]), space(0.25), this.argument(), op(")")]);
    if (name === "bmod") return make("mo", ["mod"], { lspace: "0.222em", rspace: "0.222em" });
    if (name === "not") return this.negated();
    return undefined;
  }

  private decoration(name: string): Tree | undefined {
    const accent = accents[name];
    if (accent) {
      const node = make("mover", [this.argument(), op(accent[0], { stretchy: String(accent[1]) })], { accent: "true" });
      return name === "overbrace" ? { ...node, attributes: {}, class: "limits" } : node;
    }
    const below = under[name];
    if (below) return { ...make("munder", [this.argument(), op(below)]), class: "limits" };
    if (/^(?:text|textrm|textnormal|mbox|textbf|textit|texttt|textsf)$/.test(name)) return make("mtext", [this.text().replace(/^ | $/g, "\u00a0")]);
    if (name === "operatorname") return this.operatorName();
    const style = styles[name];
    if (style) return this.inStyle(style);
    if (name === "boxed") return make("mrow", [make("mrow", [this.argument()], { class: "boxed" })]);
    if (name === "phantom") return make("mphantom", [this.argument()]);
    if (name === "tag") return make("mrow", [space(2), make("mtext", [`(${this.text()})`])]);
    return undefined;
  }

  private rest(name: string): undefined {
    if (name === "label") this.text();
    else if (!ignored.has(name) && !sizes.test(name)) throw new Unknown(`\\${name}`);
    return undefined;
  }

  private root(): Tree {
    if (this.peek() !== "[") return make("msqrt", [this.argument()]);
    ++this.at;
    const index = row(this.list(["]"]));
    this.expect("]");
    return make("mroot", [this.argument(), index]);
  }

  private delimiter(): string {
    const next = this.next();
    if (next === ".") return "";
    if (next.length === 1) return next === "<" ? "⟨" : next === ">" ? "⟩" : next;
    const found = operators.get(next.slice(1));
    if (!found) throw new Unknown(next);
    return found;
  }

  private fenced(): Tree {
    const open = this.delimiter();
    const inside: Tree[] = [];
    for (;;) {
      inside.push(...this.list(["\\right", "\\middle"]));
      if (this.next() === "\\right") break;
      inside.push(op(this.delimiter(), { stretchy: "true" }));
    }
    return this.between(open, inside, this.delimiter());
  }

  private between(open: string, inside: Tree[], close: string): Tree {
    const fence = (text: string, form: string) => (text ? [op(text, { fence: "true", stretchy: "true", form })] : []);
    return make("mrow", [...fence(open, "prefix"), ...inside, ...fence(close, "postfix")]);
  }

  private environment(): Tree {
    const name = this.text();
    const isAligned = alignments.test(name);
    const fences = matrices[name.replace(/\*$/, "")];
    if (!isAligned && !fences) throw new Unknown(name);
    if (name === "array" || /^alignat|^alignedat/.test(name)) this.text(); // the columns
    const rows = this.rows();
    this.expect("\\end");
    if (this.text() !== name) throw new Unknown(name);
    const tree = (cells: Tree[][]) => make("mtr", cells.map((cell) => make("mtd", cell)));
    const table = make("mtable", rows.map(tree), isAligned ? { class: "aligned", displaystyle: "true" } : name.includes("cases") ? { class: "cases" } : undefined);
    return fences ? this.between(fences[0], [table], fences[1]) : table;
  }

  private rows(): Tree[][][] {
    const rows: Tree[][][] = [[]];
    for (;;) {
      rows[rows.length - 1]!.push(this.list(["&", "\\\\", "\\end", "\\hline"]));
      const end = this.peek();
      if (end === "\\end") break;
      ++this.at;
      if (end === "\\hline") rows[rows.length - 1]!.pop();
      if (end === "\\\\") rows.push([]);
    }
    const last = rows[rows.length - 1]!;
    if (last.length === 1 && last[0]!.length === 0) rows.pop();
    return rows;
  }

  private negated(): Tree {
    const base = this.atom();
    if (!base || typeof base === "string" || typeof base.children[0] !== "string") throw new Unknown("\\not");
    return make(base.tag as MathTag, [`${base.children[0]}\u0338`], base.attributes);
  }

  private operatorName(): Tree {
    if (this.peek() === "*") ++this.at;
    return make("mrow", [make("mi", [this.text()], { mathvariant: "normal" }), op("\u2061")]);
  }

  // One word in normal letters is one identifier.
  private inStyle(style: Style): Tree {
    const inside = this.peek() === "{" ? this.group() : [this.argument()];
    const names = inside.map((tree) => (typeof tree !== "string" && tree.tag === "mi" && typeof tree.children[0] === "string" ? tree.children[0] : undefined));
    if (style === "normal" && names.length > 0 && names.every((text) => text !== undefined)) return make("mi", [names.join("")], { mathvariant: "normal" });
    return row(inside.map((tree) => restyled(tree, style)));
  }
}

function restyled(tree: Tree, style: Style): Tree {
  if (typeof tree === "string") return tree;
  const [text] = tree.children;
  if ((tree.tag === "mi" || tree.tag === "mn") && typeof text === "string" && tree.children.length === 1) {
    const changed = [...text].map((char) => styled(char, style)).join("");
    return make(tree.tag, [changed], tree.tag === "mi" ? { mathvariant: "normal" } : undefined);
  }
  return { ...tree, children: tree.children.map((child) => restyled(child, style)) };
}

// undefined: not understood.
export function parseMath(latex: string): Tree[] | undefined {
  if (latex.length > longest) return undefined;
  try {
    const parser = new Parser(tokensOf(latex));
    return parser.list([]);
  } catch (error) {
    if (error instanceof Unknown) return undefined;
    throw error;
  }
}
