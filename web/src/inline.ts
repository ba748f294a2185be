// Inline Markdown: code, math, emphasis, links. Follows CommonMark; brackets and emphasis are resolved with one stack
// each, so the time is about linear in the input.

import { mathTree } from "./math/render";
import { element, safeUrl, type Tree } from "./tree";

interface Delimiter {
  char: string;
  count: number;
  opens: boolean;
  closes: boolean;
  at: number; // index into `pieces`
}

interface Bracket {
  at: number; // index into `pieces`
  isImage: boolean;
  delimiters: number; // number of delimiters before it
}

const maxDepth = 24; // nesting of emphasis and brackets; deeper is plain text
const punctuation = /[\p{P}\p{S}]/u;
const blank = /\s/;

// Parses `(url "title")` after a bracket: the URL and the end of the match.
function destination(text: string, at: number): { url: string; end: number } | undefined {
  if (text[at] !== "(") return undefined;
  const match = /\(\s*(?:<([^<>\n]{0,2000})>|([^\s()<]{0,2000}(?:\([^\s()]{0,500}\)[^\s()]{0,500}){0,4}))(?:\s+(?:"[^"]{0,500}"|'[^']{0,500}'))?\s*\)/y;
  match.lastIndex = at;
  const found = match.exec(text);
  if (!found) return undefined;
  return { url: (found[1] ?? found[2] ?? "").replace(/\\([!-/:-@[-`{-~])/g, "$1"), end: match.lastIndex };
}

class Inline {
  private readonly pieces: Tree[] = [];
  private readonly delimiters: Delimiter[] = [];
  private readonly brackets: Bracket[] = [];
  private readonly unclosed = new Set<number>(); // lengths of backtick runs without a closing run
  private readonly unclosedMath = new Set<string>(); // closing marks of math that do not follow
  private plain = "";
  private at = 0;

  constructor(private readonly text: string) {}

  parse(): Tree[] {
    while (this.at < this.text.length) this.next();
    this.flush();
    this.emphasize(0);
    return merged(this.pieces);
  }

  private next(): void {
    const char = this.text[this.at]!;
    if ((char === "$" || char === "\\") && this.math()) return;
    if (char === "\\") return this.escape();
    if (char === "`") return this.code();
    if (char === "*" || char === "_" || char === "~") return this.delimiter(char);
    if (char === "[") return this.open(false, 1);
    if (char === "!" && this.text[this.at + 1] === "[") return this.open(true, 2);
    if (char === "]") return this.close();
    if (char === "\n") return this.lineEnd();
    if (char === "<" && this.angle()) return;
    if (char === "h" && this.bareUrl()) return;
    this.plain += char;
    ++this.at;
  }

  private flush(): void {
    if (this.plain) this.pieces.push(this.plain);
    this.plain = "";
  }

  private push(tree: Tree, end: number): void {
    this.flush();
    this.pieces.push(tree);
    this.at = end;
  }

  private escape(): void {
    const following = this.text[this.at + 1] ?? "";
    if (following === "\n") return this.push(element("br"), this.at + 2);
    const escapes = /[!-/:-@[-`{-~]/.test(following);
    this.plain += escapes ? following : "\\";
    this.at += escapes ? 2 : 1;
  }

  // $a$, $$a$$, \(a\) and \[a\]. As in Pandoc, a single $ opens before and closes after a character that is not
  // blank, and no digit follows the closing one: "$5 and $10" are prices.
  private math(): boolean {
    const open = ["$$", "\\[", "\\(", "$"].find((mark) => this.text.startsWith(mark, this.at));
    if (!open) return false;
    const close = { "$$": "$$", "\\[": "\\]", "\\(": "\\)", $: "$" }[open]!;
    if (this.unclosedMath.has(close)) return false;
    const start = this.at + open.length;
    const end = this.text.indexOf(close, start);
    if (end < 0) this.unclosedMath.add(close);
    const source = this.text.slice(start, end);
    if (end < 0 || source.trim() === "") return false;
    if (open === "$" && (/^\s|\s$/.test(source) || /\d/.test(this.text[end + 1] ?? ""))) return false;
    this.push(mathTree(source, open + source + close, open === "$$" || open === "\\["), end + close.length);
    return true;
  }

  private code(): void {
    let end = this.at;
    while (this.text[end] === "`") ++end;
    const length = end - this.at;
    for (let from = end; !this.unclosed.has(length); ) {
      const start = this.text.indexOf("`", from);
      if (start < 0) {
        this.unclosed.add(length);
        break;
      }
      from = start;
      while (this.text[from] === "`") ++from;
      if (from - start !== length) continue;
      let body = this.text.slice(end, start).replace(/\n/g, " ");
      if (/^ .*[^ ].* $/.test(body) || /^ [^ ] $/.test(body)) body = body.slice(1, -1);
      return this.push(element("code", [body]), from);
    }
    this.plain += "`".repeat(length);
    this.at = end;
  }

  private delimiter(char: string): void {
    let end = this.at;
    while (this.text[end] === char) ++end;
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[end] ?? " ";
    const left = !blank.test(after) && (!punctuation.test(after) || blank.test(before) || punctuation.test(before));
    const right = !blank.test(before) && (!punctuation.test(before) || blank.test(after) || punctuation.test(after));
    const isWord = char === "_"; // no emphasis inside words: a_b_c
    const count = end - this.at;
    const run = this.text.slice(this.at, end);
    if (char === "~" && count !== 2) {
      this.plain += run;
      this.at = end;
      return;
    }
    this.flush();
    this.delimiters.push({
      char,
      count,
      opens: left && (!isWord || !right || punctuation.test(before)),
      closes: right && (!isWord || !left || punctuation.test(after)),
      at: this.pieces.length,
    });
    this.push(run, end);
  }

  // Matches opening and closing delimiters, starting at index `bottom`.
  private emphasize(bottom: number): void {
    const stack: Delimiter[] = [];
    for (const closer of this.delimiters.slice(bottom)) {
      while (closer.closes && closer.count > 0) {
        let found = stack.length - 1;
        while (found >= 0 && stack[found]!.char !== closer.char) --found;
        if (found < 0) break;
        const opener = stack[found]!;
        const size = closer.char === "~" ? 2 : Math.min(opener.count, closer.count) >= 2 ? 2 : 1;
        this.wrap(opener, closer, size);
        stack.length = opener.count > 0 ? found + 1 : found;
      }
      if (closer.opens && closer.count > 0 && stack.length < maxDepth) stack.push(closer);
    }
    this.delimiters.length = bottom;
  }

  private wrap(opener: Delimiter, closer: Delimiter, size: number): void {
    const inside = this.pieces.slice(opener.at + 1, closer.at);
    const tag = closer.char === "~" ? "del" : size === 2 ? "strong" : "em";
    opener.count -= size;
    closer.count -= size;
    this.pieces[opener.at] = opener.char.repeat(opener.count);
    this.pieces[closer.at] = closer.char.repeat(closer.count);
    // Blanks instead of removing: other delimiters hold indices into `pieces`.
    this.pieces.fill("", opener.at + 1, closer.at);
    this.pieces[opener.at + 1] = element(tag, merged(inside));
  }

  private open(isImage: boolean, length: number): void {
    this.flush();
    if (this.brackets.length >= maxDepth) this.brackets.shift();
    this.brackets.push({ at: this.pieces.length, isImage, delimiters: this.delimiters.length });
    this.push(isImage ? "![" : "[", this.at + length);
  }

  private close(): void {
    const bracket = this.brackets.pop();
    const target = bracket && destination(this.text, this.at + 1);
    if (!bracket || !target) {
      this.plain += "]";
      ++this.at;
      return;
    }
    this.flush();
    this.emphasize(bracket.delimiters);
    const inside = merged(withoutLinks(this.pieces.splice(bracket.at).slice(1)));
    const href = safeUrl(target.url);
    // Images become links: loading them would leak the reader's address.
    const label = inside.length > 0 ? inside : [target.url];
    this.push(href ? element("a", label, { href }) : element("span", label), target.end);
    if (!bracket.isImage) this.brackets.length = 0; // links cannot be nested
  }

  private lineEnd(): void {
    const hard = / {2,}$/.test(this.plain);
    this.plain = this.plain.replace(/ +$/, "");
    if (hard) return this.push(element("br"), this.at + 1);
    this.plain += "\n";
    ++this.at;
  }

  private angle(): boolean {
    const match = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/iy;
    match.lastIndex = this.at;
    const found = match.exec(this.text);
    const href = found && safeUrl(found[1]!);
    if (href) this.push(element("a", [found[1]!], { href }), match.lastIndex);
    return !!href;
  }

  private bareUrl(): boolean {
    if (/\w/.test(this.text[this.at - 1] ?? " ")) return false;
    const match = /https?:\/\/[^\s<>"'`*|\\\]\u3000-\u303f\uff00-\uffef]{1,2000}/y;
    match.lastIndex = this.at;
    let url = match.exec(this.text)?.[0].replace(/[.,:;!?]+$/, "");
    if (url?.endsWith(")") && !url.includes("(")) url = url.replace(/\)+[.,:;!?]*$/, "");
    const href = url && safeUrl(url);
    if (!url || !href) return false;
    this.push(element("a", [url], { href }), this.at + url.length);
    return true;
  }
}

function withoutLinks(trees: Tree[]): Tree[] {
  return trees.flatMap((tree) => {
    if (typeof tree === "string") return [tree];
    const children = withoutLinks(tree.children);
    return tree.tag === "a" ? children : [{ ...tree, children }];
  });
}

function merged(pieces: Tree[]): Tree[] {
  const out: Tree[] = [];
  for (const piece of pieces) {
    const last = out.length - 1;
    if (piece === "") continue;
    if (typeof piece === "string" && typeof out[last] === "string") out[last] += piece;
    else out.push(piece);
  }
  return out;
}

export function inline(text: string): Tree[] {
  return new Inline(text).parse();
}
