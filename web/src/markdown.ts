// Block-level Markdown as models write it: headings, lists, quotes, tables, code, math. HTML is shown as text.
//
// A streamed answer grows at its end: the text is split into blocks first (cheap), and only blocks whose source
// changed are rendered again; see MarkdownView.

import { highlight } from "./highlight";
import { inline } from "./inline";
import { mathTree } from "./math/render";
import { element, toDom, type Element, type Tree } from "./tree";

const maxDepth = 12; // nesting of lists and quotes
const maxMathLines = 100;
const fence = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const heading = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const rule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const quote = /^ {0,3}> ?/;
const item = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+(.*)|[ \t]*)$/;
const tableRule = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;

const mathStart = /^ {0,3}(\$\$|\\\[|\\begin\{(?:equation|align|alignat|gather|multline)\*?\})/;

type Kind = "code" | "heading" | "rule" | "quote" | "list" | "table" | "math" | "paragraph";

export interface Block {
  kind: Kind;
  lines: string[];
}

const indentOf = (line: string) => /^ */.exec(line)![0].length;
const isBlank = (line: string | undefined) => line === undefined || line.trim() === "";

function startsTable(lines: string[], at: number): boolean {
  return lines[at]!.includes("|") && (lines[at + 1] ?? "").includes("-") && tableRule.test(lines[at + 1] ?? "");
}

// The end of display math that starts at line `at`; 0 when no line before the next blank one closes it.
function endOfMath(lines: string[], at: number): number {
  const open = mathStart.exec(lines[at]!)?.[1];
  if (!open) return 0;
  const close = open === "$$" ? "$$" : open === "\\[" ? "\\]" : open.replace("begin", "end");
  const last = Math.min(lines.length, at + maxMathLines);
  for (let end = at; end < last && !isBlank(lines[end]); ++end) {
    const text = end === at ? lines[at]!.trim().slice(open.length) : lines[end]!.trimEnd();
    const found = text.indexOf(close);
    if (found >= 0) return found + close.length === text.trimEnd().length ? end + 1 : 0; // 0: text follows, a paragraph
  }
  return 0;
}

function kindAt(lines: string[], at: number): Kind {
  const line = lines[at]!;
  if (fence.test(line)) return "code";
  if (heading.test(line)) return "heading";
  if (rule.test(line)) return "rule";
  if (endOfMath(lines, at) > 0) return "math";
  if (quote.test(line)) return "quote";
  if (item.test(line) && indentOf(line) < 4) return "list";
  return startsTable(lines, at) ? "table" : "paragraph";
}

// Inside a paragraph only a bullet or the number 1 starts a list: other numbers are usually text.
function interrupts(lines: string[], at: number): boolean {
  const kind = kindAt(lines, at);
  if (kind === "list") return /^ *([-*+]|1[.)])[ \t]+\S/.test(lines[at]!);
  return kind !== "paragraph";
}

function endOfCode(lines: string[], at: number): number {
  const mark = fence.exec(lines[at]!)![2]!;
  const close = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}[ \\t]*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end]!)) ++end;
  return Math.min(end + 1, lines.length);
}

// A list continues over blank lines while an item or indented text follows.
function endOfList(lines: string[], at: number): number {
  const first = item.exec(lines[at]!)!;
  const ordered = /\d/.test(first[2]!);
  const width = first[1]!.length;
  let end = at + 1;
  for (; end < lines.length; ++end) {
    const line = lines[end]!;
    if (isBlank(line)) {
      const following = lines[end + 1];
      if (isBlank(following)) {
        if (isBlank(lines[end + 2])) break;
        continue;
      }
      const next = item.exec(following!);
      if (indentOf(following!) > width) continue;
      if (next && /\d/.test(next[2]!) === ordered && !rule.test(following!)) continue;
      break;
    }
    if (indentOf(line) > width) continue;
    const here = item.exec(line);
    if (rule.test(line)) break;
    if (here) {
      if (/\d/.test(here[2]!) !== ordered) break;
      continue;
    }
    if (kindAt(lines, end) !== "paragraph") break; // unindented lines continue the last item
  }
  return end;
}

function endOf(kind: Kind, lines: string[], at: number): number {
  if (kind === "code") return endOfCode(lines, at);
  if (kind === "list") return endOfList(lines, at);
  if (kind === "math") return endOfMath(lines, at);
  let end = at + 1;
  if (kind === "quote") {
    while (end < lines.length && quote.test(lines[end]!)) ++end;
  } else if (kind === "table") {
    while (end < lines.length && !isBlank(lines[end]) && lines[end]!.includes("|")) ++end;
  } else if (kind === "paragraph") {
    while (end < lines.length && !isBlank(lines[end]) && !interrupts(lines, end)) ++end;
  }
  return end;
}

export function blocksOf(lines: string[]): Block[] {
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length; ) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const kind = kindAt(lines, at);
    const end = endOf(kind, lines, at);
    blocks.push({ kind, lines: lines.slice(at, end) });
    at = end;
  }
  return blocks;
}

function codeTree(lines: string[]): Element {
  const [, indent, mark, info] = fence.exec(lines[0]!)!;
  const last = lines.length > 1 ? lines[lines.length - 1]!.trim() : "";
  const isClosed = last.length >= mark!.length && last === mark![0]!.repeat(last.length);
  const body = lines
    .slice(1, isClosed ? -1 : undefined)
    .map((line) => line.slice(Math.min(indent!.length, indentOf(line))))
    .join("\n");
  const lang = (info!.trim().split(/[\s{,]/)[0] ?? "").slice(0, 32);
  return element("pre", [element("code", highlight(body, lang))], { lang });
}

function mathBlock(lines: string[]): Element {
  const source = lines.join("\n").trim();
  const inner = source.startsWith("\\begin") ? source : source.slice(2, -2);
  return element("p", [mathTree(inner, source, true)]);
}

function cells(line: string): string[] {
  const inner = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  // A `|` inside inline code does not separate cells.
  return (inner.match(/(?:\\.|`[^`]*`|[^|\\]|\\$)+|(?<=\|)(?=\||$)|^(?=\|)/g) ?? []).map((cell) => cell.trim().replace(/\\\|/g, "|"));
}

function tableTree(lines: string[]): Element {
  const aligns = cells(lines[1]!).map((cell) => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "center" : right ? "right" : left ? "left" : undefined;
  });
  const head = cells(lines[0]!);
  const row = (texts: string[], tag: "th" | "td") =>
    element("tr", head.map((_, i) => element(tag, inline(texts[i] ?? ""), { align: aligns[i] })));
  const body = lines.slice(2).map((line) => row(cells(line), "td"));
  const table = element("table", [element("thead", [row(head, "th")]), element("tbody", body)]);
  return element("div", [table], { class: "table" });
}

function listTree(lines: string[], depth: number): Element {
  const first = item.exec(lines[0]!)!;
  const width = first[1]!.length;
  const items: string[][] = [];
  for (const line of lines) {
    const found = item.exec(line);
    if (found && indentOf(line) <= width) {
      items.push([found[3] ?? ""]);
      continue;
    }
    items[items.length - 1]!.push(line);
  }
  const isLoose = lines.some((line, i) => isBlank(line) && !isBlank(lines[i + 1]) && indentOf(lines[i + 1]!) <= width);
  const children = items.map((text) => itemTree(text, isLoose, depth));
  const number = parseInt(first[2]!, 10);
  if (Number.isNaN(number)) return element("ul", children);
  return element("ol", children, number === 1 ? {} : { start: number });
}

function itemTree(lines: string[], isLoose: boolean, depth: number): Element {
  const rest = lines.slice(1);
  const indent = Math.min(...rest.filter((line) => !isBlank(line)).map(indentOf), 8);
  const task = /^\[([ xX])\][ \t]+(.*)$/.exec(lines[0]!);
  const text = [task ? task[2]! : lines[0]!, ...rest.map((line) => line.slice(Math.min(indent, indentOf(line))))];
  let children = trees(text, depth + 1);
  const head = children[0];
  if (!isLoose && head && typeof head !== "string" && head.tag === "p") children = [...head.children, ...children.slice(1)];
  if (!task) return element("li", children);
  const done = task[1] !== " ";
  return element("li", [element("span", [done ? "☑ " : "☐ "], { class: "task" }), ...children], { class: "task" });
}

export function treeOf(block: Block, depth = 0): Element {
  const { kind, lines } = block;
  const paragraph = () => element("p", inline(lines.map((line) => line.replace(/^ +/, "")).join("\n").trimEnd()));
  if (depth > maxDepth) return paragraph();
  if (kind === "code") return codeTree(lines);
  if (kind === "rule") return element("hr");
  if (kind === "math") return mathBlock(lines);
  if (kind === "table") return tableTree(lines);
  if (kind === "list") return listTree(lines, depth);
  if (kind === "quote") {
    const inner = lines.map((line) => line.replace(quote, ""));
    return element("blockquote", trees(inner, depth + 1));
  }
  if (kind === "heading") {
    const [, marks, text] = heading.exec(lines[0]!)!;
    return element(`h${marks!.length}` as "h1", inline(text ?? ""));
  }
  return paragraph();
}

function trees(lines: string[], depth: number): Tree[] {
  return blocksOf(lines).map((block) => treeOf(block, depth));
}

const linesOf = (text: string) => text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n");

export function markdown(text: string): Element[] {
  return blocksOf(linesOf(text)).map((block) => treeOf(block));
}

// Renders a growing text. Unchanged blocks keep their DOM nodes, so selections, scroll positions inside code and
// decorations survive.
export class MarkdownView {
  private sources: string[] = [];

  // `decorate` may extend a new block, for example with a copy button.
  constructor(
    private readonly root: HTMLElement,
    private readonly decorate: (node: HTMLElement, block: Block) => HTMLElement = (node) => node,
  ) {}

  show(text: string): void {
    const blocks = blocksOf(linesOf(text));
    const sources = blocks.map((block) => `${block.kind}\n${block.lines.join("\n")}`);
    let same = 0;
    while (same < sources.length && sources[same] === this.sources[same]) ++same;
    while (this.root.childNodes.length > same) this.root.lastChild!.remove();
    for (const block of blocks.slice(same)) this.root.append(this.decorate(toDom(treeOf(block)) as HTMLElement, block));
    this.sources = sources;
  }
}

// The source text of a code block, for the copy button.
export function codeText(block: Block): string {
  const tree = codeTree(block.lines);
  const text = (part: Tree): string => (typeof part === "string" ? part : part.children.map(text).join(""));
  return text(tree);
}
