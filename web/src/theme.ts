// Light or dark theme: the system's setting unless the user chose one.

import { local } from "./local";

export type Theme = "auto" | "light" | "dark";
const order: Theme[] = ["auto", "light", "dark"];

export function theme(): Theme {
  const kept = local.get("theme") as Theme | null;
  return kept && order.includes(kept) ? kept : "auto";
}

export function applyTheme(): void {
  const chosen = theme();
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

export function nextTheme(): void {
  local.set("theme", order[(order.indexOf(theme()) + 1) % order.length]!);
  applyTheme();
}
