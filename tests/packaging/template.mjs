// The part of Helm's template language that packaging/helm uses: values, pipelines, if, else, with, range. An unknown value,
// function or action is an error, so that the chart stays within what is checked here.
import { stringify } from "yaml";

const isTrue = (value) => (Array.isArray(value) ? value.length > 0 : value && typeof value === "object" ? Object.keys(value).length > 0 : Boolean(value));

const functions = {
  quote: (value) => JSON.stringify(String(value)),
  default: (fallback, value) => (isTrue(value) ? value : fallback),
  toYaml: (value) => stringify(value).trimEnd(),
  nindent: (count, text) => "\n" + text.replace(/^/gm, " ".repeat(count)),
  printf: (format, ...values) => format.replace(/%s/g, () => values.shift()),
  and: (...values) => values.find((value) => !isTrue(value)) ?? values.at(-1),
  not: (value) => !isTrue(value),
  eq: (a, b) => a === b,
  add: (a, b) => a + b,
  div: (a, b) => Math.floor(a / b),
};

function tokensOf(text) {
  return text.match(/"(?:[^"\\]|\\.)*"|[()|]|[^\s()|]+/g) ?? [];
}

function find(path, dot, root) {
  if (path === ".") return dot;
  let value = root;
  for (const key of path.slice(1).split(".")) {
    if (value === null || typeof value !== "object" || !(key in value)) throw new Error(`${path}: no such value`);
    value = value[key];
  }
  return value;
}

// A pipeline up to its end or ")".
function evaluate(tokens, dot, root) {
  const term = (token) => {
    if (token === "(") return evaluate(tokens, dot, root);
    if (token.startsWith('"')) return JSON.parse(token);
    if (/^\d+$/.test(token)) return Number(token);
    if (token.startsWith(".")) return find(token, dot, root);
    if (token in functions) return functions[token];
    throw new Error(`${token}: unknown function`);
  };
  let piped = [];
  for (;;) {
    const words = [];
    while (tokens.length > 0 && tokens[0] !== "|" && tokens[0] !== ")") words.push(term(tokens.shift()));
    const [first, ...rest] = words;
    const value = typeof first === "function" ? first(...rest, ...piped) : first;
    if (tokens.shift() !== "|") return value;
    piped = [value];
  }
}

// Renders the parts up to an "end" or "else" of this level; returns the text and that action.
function renderUntil(parts, dot, root) {
  let out = "";
  while (parts.length > 0) {
    const part = parts.shift();
    if (typeof part === "string") {
      out += part;
      continue;
    }
    const [word, ...rest] = tokensOf(part.action);
    if (word === "end" || word === "else") return { out, ended: word };
    if (!["if", "with", "range"].includes(word)) {
      out += String(evaluate([word, ...rest], dot, root));
      continue;
    }
    const value = evaluate(rest, dot, root);
    const body = [...parts];
    const dots = word === "range" ? value : isTrue(value) ? [word === "with" ? value : dot] : [];
    for (const each of dots) out += renderUntil([...body], each, root).out;
    // Skips the body without evaluating values that are not there.
    const otherwise = skip(parts);
    if (otherwise && word !== "range") {
      if (!isTrue(value)) out += renderUntil([...parts], dot, root).out;
      skip(parts);
    }
  }
  return { out, ended: "" };
}

// Removes the parts of a body; true when it ended with "else".
function skip(parts) {
  for (let depth = 0; parts.length > 0; ) {
    const part = parts.shift();
    if (typeof part === "string") continue;
    const [word] = tokensOf(part.action);
    if (["if", "with", "range"].includes(word)) ++depth;
    if (word === "else" && depth === 0) return true;
    if (word === "end" && depth-- === 0) return false;
  }
  throw new Error("an action without end");
}

// `root`: {Values, Release, Chart}.
export function render(text, root) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(/\{\{(-?)\s*(.*?)\s*(-?)\}\}/gs)) {
    let before = text.slice(at, match.index);
    if (match[1]) before = before.trimEnd();
    parts.push(before, { action: match[2] });
    at = match.index + match[0].length;
    if (match[3]) at += text.slice(at).length - text.slice(at).trimStart().length;
  }
  parts.push(text.slice(at));
  const { out, ended } = renderUntil(parts, root, root);
  if (ended) throw new Error(`${ended} without a beginning`);
  return out;
}
