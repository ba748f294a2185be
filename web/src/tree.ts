// Intermediate tree between Markdown and the DOM. Only the tags and attributes listed here can be created, text
// becomes text nodes and nothing is parsed as HTML, so model output cannot inject code into the page.

export type Tag =
  | "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "pre" | "code" | "span" | "strong" | "em" | "del" | "a"
  | "ul" | "ol" | "li" | "blockquote" | "hr" | "br" | "table" | "thead" | "tbody" | "tr" | "th" | "td" | "div"
  | MathTag;

export type MathTag =
  | "math" | "mrow" | "mi" | "mn" | "mo" | "mtext" | "mspace" | "mfrac" | "msqrt" | "mroot" | "msub" | "msup" | "msubsup"
  | "munder" | "mover" | "munderover" | "mtable" | "mtr" | "mtd" | "mphantom";

export interface Element {
  tag: Tag;
  class?: string; // set by our code, never from model output
  href?: string; // validated by safeUrl
  start?: number; // first number of an ordered list
  align?: "left" | "center" | "right";
  lang?: string; // language of a code block, from the model output
  attributes?: Record<string, string>; // of MathML; set by our code, never from model output
  children: Tree[];
}

export type Tree = Element | string;

export function element(tag: Tag, children: Tree[] = [], more: Partial<Element> = {}): Element {
  return { ...more, tag, children };
}

// Accepts only absolute http, https and mailto URLs, which cannot run code.
export function safeUrl(url: string): string | undefined {
  // Browsers strip control characters and blanks before they parse the scheme.
  const plain = url.replace(/[\u0000-\u0020\u007f-\u00a0\u200b-\u200f\u2028-\u202f\ufeff]/g, "");
  return /^(https?:\/\/|mailto:)/i.test(plain) ? plain : undefined;
}

const isMath = (tag: Tag): tag is MathTag => /^m/.test(tag);

function mathDom({ tag, attributes = {}, children }: Element): Node {
  const node = document.createElementNS("http://www.w3.org/1998/Math/MathML", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  for (const child of children) node.append(toDom(child));
  return node;
}

export function toDom(tree: Tree): Node {
  if (typeof tree === "string") return document.createTextNode(tree);
  if (isMath(tree.tag)) return mathDom(tree);
  const node = document.createElement(tree.tag);
  if (tree.class) node.className = tree.class;
  if (tree.href !== undefined && node instanceof HTMLAnchorElement) {
    node.href = tree.href;
    node.target = "_blank";
    node.rel = "noopener noreferrer nofollow";
  }
  if (tree.start !== undefined && node instanceof HTMLOListElement) node.start = tree.start;
  if (tree.align) node.classList.add(`align-${tree.align}`);
  if (tree.lang) node.dataset.lang = tree.lang;
  for (const child of tree.children) node.append(toDom(child));
  return node;
}

export function textOf(tree: Tree): string {
  return typeof tree === "string" ? tree : tree.children.map(textOf).join("");
}
