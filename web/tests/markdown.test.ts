import { describe, expect, it } from "vitest";
import { blocksOf, codeText, markdown } from "../src/markdown";
import { safeUrl, textOf, type Element, type Tree } from "../src/tree";

// Serializes a tree as HTML, to make expectations readable.
function html(tree: Tree): string {
  if (typeof tree === "string") return tree.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const { tag, children } = tree;
  const attributes = (tree.href ? ` href=${tree.href}` : "") + (tree.start ? ` start=${tree.start}` : "");
  if (tag === "br" || tag === "hr") return `<${tag}>`;
  return `<${tag}${attributes}>${children.map(html).join("")}</${tag}>`;
}
const render = (text: string) => markdown(text).map(html).join("");

function elements(trees: Tree[]): Element[] {
  return trees.flatMap((tree) => (typeof tree === "string" ? [] : [tree, ...elements(tree.children)]));
}

describe("inline", () => {
  it.each([
    ["**a** *b* ***c*** ~~d~~", "<p><strong>a</strong> <em>b</em> <em><strong>c</strong></em> <del>d</del></p>"],
    ["**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"],
    ["snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"],
    ["_a_ __b__", "<p><em>a</em> <strong>b</strong></p>"],
    ["`a*b*` ``c`d``", "<p><code>a*b*</code> <code>c`d</code></p>"],
    ["`open **a**", "<p>`open <strong>a</strong></p>"],
    ["[t *x*](https://a.b/c_(d) \"title\")", "<p><a href=https://a.b/c_(d)>t <em>x</em></a></p>"],
    ["see https://a.b/c. Then", "<p>see <a href=https://a.b/c>https://a.b/c</a>. Then</p>"],
    ["(https://a.b)", "<p>(<a href=https://a.b>https://a.b</a>)</p>"],
    ["![cat](https://a.b/c.png)", "<p><a href=https://a.b/c.png>cat</a></p>"],
    ["[![i](https://a.b/i)](https://c.d)", "<p><a href=https://c.d>i</a></p>"],
    ["a\\*b\\* \\x", "<p>a*b* \\x</p>"],
    ["a  \nb\nc", "<p>a<br>b\nc</p>"],
    ["**粗体**文字", "<p><strong>粗体</strong>文字</p>"],
    ["[not a link] ] ![", "<p>[not a link] ] ![</p>"],
  ])("%s", (text, want) => expect(render(text)).toBe(want));
});

describe("blocks", () => {
  it.each([
    ["# A\n## B #\ntext", "<h1>A</h1><h2>B</h2><p>text</p>"],
    ["- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"],
    ["3. a\n4. b", "<ol start=3><li>a</li><li>b</li></ol>"],
    ["1. a\n\n   b\n2. c", "<ol><li>a<p>b</p></li><li>c</li></ol>"],
    ["1. a\n\n2. c", "<ol><li><p>a</p></li><li><p>c</p></li></ol>"],
    ["> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"],
    ["a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"],
    ["- [x] done\n- [ ] not", "<ul><li><span>☑ </span>done</li><li><span>☐ </span>not</li></ul>"],
    [
      "| a | b |\n|---|--:|\n| 1 | `x|y` |\n| 2 |",
      "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><code>x|y</code></td></tr><tr><td>2</td><td></td></tr></tbody></table></div>",
    ],
    ["It was 1984.\n2. is no list here", "<p>It was 1984.\n2. is no list here</p>"],
    ["- a\n```\nx\n```", "<ul><li>a</li></ul><pre><code>x</code></pre>"],
    ["1. do\n   ```sh\n   ls\n   ```\n2. done", "<ol><li>do<pre><code>ls</code></pre></li><li>done</li></ol>"],
  ])("%s", (text, want) => expect(render(text)).toBe(want));

  it("shows code that has not ended yet", () => {
    expect(markdown("```python\nprint(1)\n").map(textOf)).toEqual(["print(1)\n"]);
    expect(markdown("```python")[0]!.tag).toBe("pre");
    const [block] = blocksOf(["```js", "let a = '<b>';", "```"]);
    expect(codeText(block!)).toBe("let a = '<b>';");
  });

  it("colours code without changing it", () => {
    for (const lang of ["js", "python", "cpp", "rust", "sql", "bash", "html", "diff", "yaml", "unknown", ""]) {
      const code = "# x /* y */ \"a\\\"b\" 'c' 0x1F 1.5e3 if (return) <p a='1'>`t`\n+ a\n- b";
      expect(textOf(markdown("```" + lang + "\n" + code + "\n```")[0]!)).toBe(code);
    }
  });
});

describe("is safe", () => {
  const attacks = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](java\nscript:alert(1))",
    "[a](<java\tscript:alert(1)>)",
    "[a](\u0001javascript:alert(1))",
    "[a](&#106;avascript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)",
    "[a](vbscript:x)",
    "![a](javascript:alert(1))",
    "<javascript:alert(1)>",
    "[a](//evil.example)",
    "```\"><script>alert(1)</script>\nx\n```",
    "| <script> | b |\n|---|---|\n| <img onerror=x> | y |",
    "> <iframe src=javascript:alert(1)>",
    "# <svg onload=alert(1)>",
    "https://a.b/\"onmouseover=alert(1)",
  ];
  it.each(attacks)("%s", (text) => {
    for (const { tag, href } of elements(markdown(text))) {
      expect(tag).not.toMatch(/script|img|iframe|svg|style|object/);
      if (href !== undefined) expect(href).toMatch(/^(https?:\/\/|mailto:)/i);
    }
    if (text.startsWith("<")) expect(textOf(markdown(text)[0]!)).toContain(text.slice(0, 5));
  });

  it("takes no address without a known scheme", () => {
    for (const url of ["", "x", "/x", "//x", "javascript:x", " javascript:x", "data:x", "file:///x", "https:x"])
      expect(safeUrl(url)).toBeUndefined();
    expect(safeUrl("HTTPS://x")).toBe("HTTPS://x");
  });

  it.each([
    ["*a ".repeat(20_000)],
    ["*a ".repeat(10_000) + "a* ".repeat(10_000)],
    ["[".repeat(50_000)],
    ["[a](".repeat(10_000)],
    ["![".repeat(5_000) + "](https://a.b)".repeat(5_000)],
    ["`".repeat(3) + "` `` ".repeat(10_000)],
    ["> ".repeat(5_000) + "a"],
    ["- ".repeat(5_000) + "a"],
    ["|a".repeat(20_000) + "\n" + "|-".repeat(20_000)],
    ["<http://" + "a".repeat(50_000)],
    ["a\n".repeat(20_000)],
    [" ".repeat(50_000) + "a  \n b"],
    ["* ".repeat(30_000) + "x"],
    ["```js\n" + "'\\".repeat(20_000)],
  ])("takes bad input in its stride (case %#)", (text) => {
    // CPU time: other work on the machine does not count.
    const start = process.cpuUsage();
    markdown(text);
    expect(process.cpuUsage(start).user).toBeLessThan(2_000_000);
  });
});
