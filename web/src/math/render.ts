// A formula as MathML, or its source when it uses something that the parser does not know.

import { element, type Element } from "../tree";
import { parseMath } from "./parser";

export function mathTree(latex: string, source: string, isDisplay: boolean): Element {
  const children = parseMath(latex);
  if (!children) return element("code", [source], { class: "math-source" });
  return element("math", [element("mrow", children)], {
    attributes: { display: isDisplay ? "block" : "inline", "aria-label": latex.trim() },
  });
}
