// How numbers, sizes and times are written for people.

const thin = '\u202f';

/** `20 418`, with thin spaces. */
export function count(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, thin);
}

/** `1 file`, `3 files`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** `812 B`, `1.2 KB`, `61 KB`, `4.0 MB`. */
export function bytes(n: number): string {
  if (n < 1000) return `${n}${thin}B`;
  const units = ['KB', 'MB', 'GB', 'TB'];
  let value = n / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)}${thin}${units[unit]}`;
}

/** `8 ms`, `0.2 s`, `4 s`, `2 min 5 s`, `1 h 3 min`. */
export function duration(ms: number): string {
  if (ms < 100) return `${Math.max(0, Math.round(ms))}${thin}ms`;
  if (ms < 950) return `${(ms / 1000).toFixed(1)}${thin}s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds}${thin}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}${thin}min${seconds % 60 ? ` ${seconds % 60}${thin}s` : ''}`;
  return `${Math.floor(minutes / 60)}${thin}h${minutes % 60 ? ` ${minutes % 60}${thin}min` : ''}`;
}

/** A time that a person may care about. Null for less than 0.1 s. */
export function shownDuration(ms: number): string | null {
  return ms < 100 ? null : duration(ms);
}

/** `12:03`. */
export function clock(time: number): string {
  const date = new Date(time);
  return `${String(date.getHours()).padStart(2, '0')}:${String(date.getMinutes()).padStart(2, '0')}`;
}

/** `12:03:09`. */
export function clockSeconds(time: number): string {
  return `${clock(time)}:${String(new Date(time).getSeconds()).padStart(2, '0')}`;
}

/** `now`, `5 min`, `3 h`, `yesterday`, `4 d`, or a date. */
export function ago(time: number, now: number): string {
  const minutes = Math.floor((now - time) / 60_000);
  if (minutes < 1) return 'now';
  if (minutes < 60) return `${minutes}${thin}min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours}${thin}h`;
  const days = Math.floor(hours / 24);
  if (days < 30) return `${days}${thin}d`;
  return new Date(time).toISOString().slice(0, 10);
}

/** How many words a text has. */
export function words(text: string): number {
  return text.split(/\s+/).filter(Boolean).length;
}
