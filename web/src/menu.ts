// A menu that opens at a button. Arrow keys move, Escape and a click elsewhere close it.

import { h, icon, type IconName } from "./dom";

export interface MenuItem {
  label: string;
  icon: IconName;
  run: () => void;
}

export function openMenu(anchor: HTMLElement, items: MenuItem[]): void {
  document.querySelector(".menu")?.remove();
  const menu = h("div", { class: "menu", role: "menu" });
  const away = (event: Event) => {
    if (!menu.contains(event.target as Node)) close(false);
  };
  const close = (refocuses: boolean) => {
    removeEventListener("pointerdown", away);
    menu.remove();
    anchor.setAttribute("aria-expanded", "false");
    if (refocuses) anchor.focus();
  };
  const buttons = items.map((item) => {
    const run = () => {
      close(true);
      item.run();
    };
    return h("button", { type: "button", role: "menuitem", tabIndex: -1, onclick: run }, icon(item.icon), item.label);
  });
  menu.append(...buttons);
  menu.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) buttons.at(to % buttons.length)!.focus();
    else if (event.key === "Escape" || event.key === "Tab") close(true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  document.body.append(menu);
  const { left, right, top, bottom } = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  menu.style.left = `${Math.max(8, left + width > innerWidth - 8 ? right - width : left)}px`;
  menu.style.top = `${bottom + height > innerHeight - 8 ? top - height - 4 : bottom + 4}px`;
  anchor.setAttribute("aria-expanded", "true");
  addEventListener("pointerdown", away);
  buttons[0]?.focus();
}
