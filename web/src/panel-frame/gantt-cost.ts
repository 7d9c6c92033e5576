// What a Gantt chart costs. With `excludes`, mermaid goes through the days of each task one by one, to move its end.

/** The most days of all tasks together that mermaid may go through. */
const mostDays = 20_000;
/** The most steps between two ticks: mermaid also counts the steps that it does not draw. */
const mostSteps = 60;
const longestFormat = 60;
/** The first and the last year of a date. */
const years = [1900, 2199] as const;

const daysIn: Record<string, number> = { ms: 1 / 86_400_000, s: 1 / 86_400, m: 1 / 1440, h: 1 / 24, d: 1, w: 7, M: 31, y: 366 };

/** Why a Gantt chart is not drawn, or null. */
export function ganttProblem(body: string): string | null {
  for (const [, steps] of body.matchAll(/tickInterval\s+(\d+)/gi)) {
    if (Number(steps) > mostSteps) return `The chart has a tickInterval of more than ${mostSteps}, so it is not drawn.`;
  }
  for (const [, format] of body.matchAll(/(?:dateFormat|axisFormat)\s+([^\n;]+)/gi)) {
    if (format!.length > longestFormat) return 'The chart has a format that is too long to be drawn.';
  }
  if (!/excludes/i.test(body)) return null;
  const days = daysWithExcludes(body, new Date().getFullYear());
  if (days === null) return `With excludes, a chart needs dates from ${years[0]} to ${years[1]}, so it is not drawn.`;
  return days > mostDays ? `With excludes, a chart can have ${mostDays} days of work, so it is not drawn.` : null;
}

/** At most how many days mermaid goes through, or null if a date is not in our years. */
function daysWithExcludes(body: string, thisYear: number): number | null {
  let durations = 0;
  let otherEnds = 0;
  const mentioned = [thisYear];
  // `name : active, id, start, end`. A text with a colon elsewhere looks like a task, which only makes the sum larger.
  const tasks = body.replace(/^\s*(?:title|section)\s[^#\n;]*/gim, '');
  for (const [, data] of tasks.matchAll(/:([^#\n;]+)/g)) {
    const parts = data!.split(',').map((part) => part.trim());
    const end = parts.pop()!;
    const start = parts.pop();
    const duration = /^(\d+(?:\.\d+)?)(ms|[Mdhmswy])$/.exec(end);
    if (duration) durations += Number(duration[1]) * daysIn[duration[2]!]!;
    // The end that is a date in this form is not moved.
    else if (!/^\d{4}-\d\d-\d\d$/.test(end)) otherEnds += 1;
    for (const date of duration ? [start] : [start, end]) {
      if (!date || /^(?:after|until)\s/.test(date)) continue;
      const numbers = date.match(/\d{3,}/g);
      if (numbers) mentioned.push(...numbers.map(Number));
      // A year of two digits, or none.
      else if (/\d/.test(date)) mentioned.push(...years);
    }
  }
  if (mentioned.some((year) => year < years[0] || year > years[1])) return null;
  const range = (Math.max(...mentioned) - Math.min(...mentioned) + 1) * 366;
  return durations + otherEnds * (range + durations);
}
