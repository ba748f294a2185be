// localStorage that never throws: in private windows and with full storage the page works without it.

const prefix = "graft.";

export const local = {
  get(name: string): string | null {
    try {
      return localStorage.getItem(prefix + name);
    } catch {
      return null;
    }
  },

  // False when the storage is full or disabled.
  set(name: string, value: string): boolean {
    try {
      localStorage.setItem(prefix + name, value);
      return true;
    } catch {
      return false;
    }
  },

  remove(name: string): void {
    try {
      localStorage.removeItem(prefix + name);
    } catch {
      // Storage is disabled: nothing to remove.
    }
  },

  names(): string[] {
    try {
      return Object.keys(localStorage)
        .filter((key) => key.startsWith(prefix))
        .map((key) => key.slice(prefix.length));
    } catch {
      return [];
    }
  },

  // Calls `listener` with each name that another window changes.
  onChange(listener: (name: string) => void): void {
    addEventListener("storage", (event) => {
      if (event.key?.startsWith(prefix)) listener(event.key.slice(prefix.length));
    });
  },
};
