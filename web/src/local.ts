// localStorage, where the browser allows it: in private windows and full stores the page works on without.

const prefix = "graft.";

export const local = {
  get(name: string): string | null {
    try {
      return localStorage.getItem(prefix + name);
    } catch {
      return null;
    }
  },

  // False: there was no room.
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
      // Nothing was kept.
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

  // The name that another window changed.
  onChange(listener: (name: string) => void): void {
    addEventListener("storage", (event) => {
      if (event.key?.startsWith(prefix)) listener(event.key.slice(prefix.length));
    });
  },
};
