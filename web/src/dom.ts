// Creates DOM elements in one expression. Strings become text nodes, never HTML.

type Child = Node | string | false | null | undefined;
type Attributes = Record<string, unknown>;

// Names that start with "on" are event listeners; "class", "role" and names with a dash are attributes; the rest are
// properties.
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value as EventListener);
    else if (name === "class" || name === "role" || name.includes("-")) node.setAttribute(name, String(value));
    else (node as unknown as Attributes)[name] = value;
  }
  for (const child of children) if (child) node.append(child);
  return node;
}

export function svg(tag: string, attributes: Record<string, string | number> = {}, ...children: Node[]): SVGElement {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

// Icon paths in a 24 × 24 view box, stroke width 1.75.
const paths = {
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  sliders: "M4 8h10M18 8h2M4 16h2M10 16h10M16 6v4M8 14v4",
  pencil: "M4 20h4L19 9l-4-4L4 16v4zM13 7l4 4",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10 11v5M14 11v5",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 13l4 4L19 7",
  again: "M20 12a8 8 0 1 1-2.5-5.8M20 3v5h-5",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  down: "M12 5v14M6 13l6 6 6-6",
  chevron: "M9 6l6 6-6 6",
  back: "M15 6l-6 6 6 6",
  clip: "M8 12.5l6-6a3 3 0 0 1 4.3 4.2l-7.8 7.8a5 5 0 0 1-7-7L11 4",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6L7 7M17 17l1.4 1.4M18.4 5.6L17 7M7 17l-1.4 1.4",
  moon: "M19 14.5A8 8 0 0 1 9.5 5 7.5 7.5 0 1 0 19 14.5z",
  auto: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 4v16M12 8h5M12 12h8M12 16h5",
  chart: "M4 20h16M7 16v-5M12 16V6M17 16v-8",
  chat: "M5 5h14v11H11l-4 4v-4H5z",
  globe: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17zM3.5 12h17M12 3.5c5 5 5 12 0 17M12 3.5c-5 5-5 12 0 17",
};

export type IconName = keyof typeof paths;

export function icon(name: IconName): SVGElement {
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, svg("path", { d: paths[name] }));
}

export function iconButton(name: IconName, label: string, onclick: (event: MouseEvent) => void, more: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", class: "icon-button", title: label, "aria-label": label, onclick, ...more }, icon(name));
}

export function download(name: string, text: string): void {
  const type = name.endsWith(".json") ? "application/json" : "text/markdown";
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // The clipboard API is not available over plain HTTP from another host.
    const area = h("textarea", { value: text, class: "offscreen" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

let hideToast = 0;

export function toast(text: string, action?: { label: string; run: () => void }): void {
  document.querySelector(".toast")?.remove();
  const node = h("div", { class: "toast", role: "status" }, h("span", {}, text));
  const button = action && h("button", { type: "button", onclick: () => (node.remove(), action.run()) }, action.label);
  if (button) node.append(button);
  document.body.append(node);
  clearTimeout(hideToast);
  hideToast = window.setTimeout(() => node.remove(), action ? 8000 : 4000);
}
