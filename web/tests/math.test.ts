import { describe, expect, it } from "vitest";
import { markdown } from "../src/markdown";
import { parseMath } from "../src/math/parser";
import type { Tree } from "../src/tree";

// MathML as text, without attributes.
function mathml(tree: Tree): string {
  if (typeof tree === "string") return tree.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  return `<${tree.tag}>${tree.children.map(mathml).join("")}</${tree.tag}>`;
}
const render = (latex: string) => parseMath(latex)?.map(mathml).join("");
const page = (text: string) => markdown(text).map(mathml).join("");

describe("formulas", () => {
  it.each([
    ["x^2\\,dx", "<msup><mi>x</mi><mn>2</mn></msup><mspace></mspace><mi>d</mi><mi>x</mi>"],
    ["x_1^{n+1}", "<msubsup><mi>x</mi><mn>1</mn><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></msubsup>"],
    ["f'(x) - 1", "<msup><mi>f</mi><mo>′</mo></msup><mo>(</mo><mi>x</mi><mo>)</mo><mo>−</mo><mn>1</mn>"],
    ["\\frac{a}{b}", "<mfrac><mi>a</mi><mi>b</mi></mfrac>"],
    ["\\frac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"],
    ["\\sqrt[3]{x}", "<mroot><mi>x</mi><mn>3</mn></mroot>"],
    ["\\sum_{i=1}^n i", "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>"],
    ["\\int_0^1", "<msubsup><mo>∫</mo><mn>0</mn><mn>1</mn></msubsup>"],
    ["\\lim_{x \\to 0}", "<munder><mo>lim</mo><mrow><mi>x</mi><mo>→</mo><mn>0</mn></mrow></munder>"],
    ["\\alpha \\le \\mathbb{R}", "<mi>α</mi><mo>≤</mo><mi>ℝ</mi>"],
    ["\\mathrm{kg}", "<mi>kg</mi>"],
    ["\\mathbf{x1}", "<mrow><mi>𝐱</mi><mn>𝟏</mn></mrow>"],
    ["\\text{if } x", "<mtext>if\u00a0</mtext><mi>x</mi>"],
    ["\\left( \\frac{1}{2} \\right)^2", "<msup><mrow><mo>(</mo><mfrac><mn>1</mn><mn>2</mn></mfrac><mo>)</mo></mrow><mn>2</mn></msup>"],
    ["\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "<mrow><mo>(</mo><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr></mtable><mo>)</mo></mrow>"],
    ["\\hat{x} \\not= y", "<mover><mi>x</mi><mo>^</mo></mover><mo>=\u0338</mo><mi>y</mi>"],
    ["\\{ 3.14 \\}", "<mo>{</mo><mn>3.14</mn><mo>}</mo>"],
  ])("%s", (latex, want) => expect(render(latex)).toBe(want));

  it.each(["\\frac{a}", "x^", "{", "}", "\\left( x", "\\unknown{x}", "\\begin{pmatrix} 1", "\\begin{tikzpicture}\\end{tikzpicture}", "{".repeat(200), "x".repeat(9000)])(
    "does not understand %s",
    (latex) => expect(render(latex)).toBeUndefined(),
  );

  it("parses long formulas in reasonable time", () => {
    const start = performance.now();
    render("\\frac{1}{2} x_{i}^{2} + ".repeat(300));
    render("\\left(".repeat(49));
    expect(performance.now() - start).toBeLessThan(500);
  });
});

describe("formulas in Markdown", () => {
  const x = "<math><mrow><mi>x</mi></mrow></math>";
  it.each([
    ["a $x$ b", `<p>a ${x} b</p>`],
    ["a \\(x\\) b", `<p>a ${x} b</p>`],
    ["$$x$$", `<p>${x}</p>`],
    ["\\[\nx\n\\]", `<p>${x}</p>`],
    ["text\n$$\nx\n$$\nmore", `<p>text</p><p>${x}</p><p>more</p>`],
    ["- item $x$", `<ul><li>item ${x}</li></ul>`],
    ["| a | $x$ |\n|---|---|", `<div><table><thead><tr><th>a</th><th>${x}</th></tr></thead><tbody></tbody></table></div>`],
    ["It costs $5 and $10 or $5-$10.", "<p>It costs $5 and $10 or $5-$10.</p>"],
    ["`$x$` and \\$x$", "<p><code>$x$</code> and $x$</p>"],
    ["$\\unknown$", "<p><code>$\\unknown$</code></p>"],
    ["$$\nx + ", "<p>$$\nx +</p>"],
    ["$$x$$ $$x$$", `<p>${x} ${x}</p>`],
    ["$$x$$ is it", `<p>${x} is it</p>`],
    ["*$a*b$*", "<p><em><math><mrow><mi>a</mi><mo>∗</mo><mi>b</mi></mrow></math></em></p>"],
  ])("%s", (text, want) => expect(page(text)).toBe(want));

  it("renders the source of a formula only as text", () => {
    expect(page("$<img src=x>$")).not.toContain("<img");
  });
});
