// Rounds up to 1, 2 or 5 times a power of ten, so that the scale rarely changes.
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 5].find((step) => step * power >= value * 0.9999) ?? 10;
  return factor * power;
}
