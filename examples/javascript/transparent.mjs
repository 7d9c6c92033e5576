function members(text) {
  let found = {}, depth = 0, key, start;
  for (const { 0: token, index } of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/g)) {
    if (depth === 1 && token === ":") start = index + 1;
    else if (depth === 1 && !key && token[0] === '"') key = JSON.parse(token);
    else if (depth === 1 && key && ",}".includes(token)) [found[key], key] = [text.slice(start, index).trim()];
    depth += "{[".includes(token) - "}]".includes(token);
  }
  return found;
}
const join = (found) =>
  `{${Object.entries(found).flatMap(([key, value]) => (value ? [`${JSON.stringify(key)}:${value}`] : []))}}`;
let rest = "";
for await (const chunk of process.stdin.setEncoding("utf8")) {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop();
  for (let { method, params, ...message } of lines.map(members)) {
    if (method === '"proxy/successor"') ({ method, params } = members(params)); // from the agent's side
    else if (method && method !== '"$/cancel_request"') { // from the editor's side
      if (method === '"proxy/initialize"') method = '"initialize"';
      [method, params] = ['"proxy/successor"', join({ method, params })];
    }
    console.log(join({ ...message, method, params }));
  }
}
