// A modal dialog with a title, a body and a button that closes it.

import { h, iconButton } from "./dom";
import { t } from "./language";

export interface DialogOptions {
  title: string;
  class: string;
  closed: () => void;
  left?: HTMLElement; // beside the button at the bottom
}

export function openDialog(options: DialogOptions, ...body: (HTMLElement | false | undefined)[]): HTMLDialogElement {
  document.querySelector("dialog")?.remove();
  const dialog = h("dialog", { class: `dialog ${options.class}`, "aria-label": options.title });
  dialog.append(
    h(
      "form",
      { method: "dialog", noValidate: true }, // the server validates the values
      h("header", {}, h("h2", {}, options.title), iconButton("close", t("done"), () => dialog.close())),
      ...body,
      h("footer", {}, options.left ?? h("span"), h("button", { type: "submit", class: "primary" }, t("done"))),
    ),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // a click on the backdrop
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    options.closed();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
