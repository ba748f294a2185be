// Numbers for people.

export function bytesText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (bytes >= 1024 && power < units.length - 1) {
    bytes /= 1024;
    ++power;
  }
  return `${bytes.toLocaleString(undefined, { maximumFractionDigits: power === 0 || bytes >= 100 ? 0 : 1 })} ${units[power]}`;
}

export function countText(value: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 });
}

// "3 d 4 h", "4 h 5 min", "5 min", "12 s".
export function durationText(seconds: number): string {
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min` : `${Math.floor(seconds)} s`;
}
