// Tool calls and JSON in answers.

import { h, icon } from "../dom";
import { t } from "../language";
import { highlight } from "../highlight";
import { element, toDom } from "../tree";
import { copyButton } from "./copy_button";
import type { ToolCall } from "./store";

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function callOf(text: string, id: string): ToolCall | undefined {
  const value = parsed(text) as { name?: unknown; arguments?: unknown } | null | undefined;
  if (typeof value?.name !== "string") return undefined;
  const given = value.arguments ?? {};
  return { id, name: value.name, arguments: typeof given === "string" ? given : JSON.stringify(given) };
}

// Calls that a model wrote as text, because the request had no tools; the server parses the others. A block that is
// still being written is left out. Text inside code is not changed.
export function splitCalls(content: string): { text: string; calls: ToolCall[] } {
  if (!content.includes("<tool_call>")) return { text: content, calls: [] };
  const calls: ToolCall[] = [];
  const parts = content.split(/(^ {0,3}```[^\n]*\n[\s\S]*?(?:^ {0,3}```[ \t]*$|$(?![\s\S])))/m);
  const text = parts.map((part, i) => {
    if (i % 2 === 1) return part;
    return part.replace(/<tool_call>\s*([\s\S]*?)\s*(<\/tool_call>|$(?![\s\S]))/g, (_whole, inner: string, end: string) => {
      const call = callOf(inner, `text-${calls.length}`);
      if (call) calls.push(call);
      if (call || end === "") return "";
      return `\n\`\`\`json\n${inner}\n\`\`\`\n`;
    });
  });
  return { text: text.join("").trim(), calls };
}

// An answer that is JSON as a whole is shown as an indented code block.
export function withJsonBlock(text: string): string {
  const trimmed = text.trim();
  if (!/^[{[]/.test(trimmed)) return text;
  const value = parsed(trimmed);
  return typeof value === "object" && value !== null ? `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\`` : text;
}

export function indented(text: string): string {
  const value = parsed(text);
  return value === undefined ? text : JSON.stringify(value, null, 2);
}

function codeBlock(text: string): HTMLElement {
  const shown = indented(text);
  const code = toDom(element("pre", [element("code", highlight(shown, "json"))])) as HTMLElement;
  code.tabIndex = 0; // can be scrolled with the keyboard
  return h("div", { class: "call-body" }, code, copyButton(t("copy"), () => shown, false));
}

export function callView(call: ToolCall): HTMLElement {
  const preview = call.arguments.replace(/\s+/g, " ").slice(0, 80);
  return h(
    "details",
    { class: "call" },
    h("summary", {}, icon("chevron"), h("span", {}, t("calls")), h("code", {}, call.name), h("span", { class: "call-preview" }, preview)),
    codeBlock(call.arguments || "{}"),
  );
}

export function resultView(name: string, content: string): HTMLElement {
  return h("details", { class: "call" }, h("summary", {}, icon("chevron"), h("span", {}, t("resultOf")), h("code", {}, name)), codeBlock(content));
}

// A form for the results of the calls.
export function resultForm(calls: ToolCall[], send: (results: string[]) => void): HTMLElement {
  const areas = calls.map((call) => h("textarea", { rows: 2, name: "result", "aria-label": `${t("resultOf")} ${call.name}`, placeholder: `${t("resultOf")} ${call.name}` }));
  const submit = (event: Event) => {
    event.preventDefault();
    send(areas.map(({ value }) => value));
  };
  return h("form", { class: "results", onsubmit: submit }, ...areas, h("button", { class: "primary" }, t("sendResult")));
}
