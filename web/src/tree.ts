// What the model's text becomes before it is DOM. Only the tags and attributes named here can be made, all
// text goes through text nodes, and nothing is ever parsed as HTML: a model cannot put code into the page.

export type Tag =
  | "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "pre" | "code" | "span" | "strong" | "em" | "del" | "a"
  | "ul" | "ol" | "li" | "blockquote" | "hr" | "br" | "table" | "thead" | "tbody" | "tr" | "th" | "td" | "div";

export interface Element {
  tag: Tag;
  class?: string; // ours, never the model's
  href?: string; // has passed safeUrl
  start?: number; // of an ordered list
  align?: "left" | "center" | "right";
  lang?: string; // of a code block, as the model says
  children: Tree[];
}

export type Tree = Element | string;

export function element(tag: Tag, children: Tree[] = [], more: Partial<Element> = {}): Element {
  return { ...more, tag, children };
}

// Only addresses that cannot run code and that name their scheme.
export function safeUrl(url: string): string | undefined {
  // Browsers drop control characters and blanks before they look at the scheme.
  const plain = url.replace(/[\u0000-\u0020\u007f-\u00a0\u200b-\u200f\u2028-\u202f\ufeff]/g, "");
  return /^(https?:\/\/|mailto:)/i.test(plain) ? plain : undefined;
}

export function toDom(tree: Tree): Node {
  if (typeof tree === "string") return document.createTextNode(tree);
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
