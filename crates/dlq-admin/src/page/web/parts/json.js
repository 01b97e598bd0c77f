// JSON with line breaks, and nothing else about it changed: a number of twenty digits keeps them
// all, which it would not if it were read and written again.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

// The text laid out, or null where it is no JSON.
export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const tokens = text.match(TOKEN) ?? [];
  let out = '';
  let depth = 0;
  const line = () => `\n${'  '.repeat(depth)}`;
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at];
    const closes = tokens[at + 1] === '}' || tokens[at + 1] === ']';
    if (token === '{' || token === '[') {
      if (closes) {
        out += token + tokens[at + 1];
        at += 1;
        continue;
      }
      depth += 1;
      out += token + line();
    } else if (token === '}' || token === ']') {
      depth -= 1;
      out += line() + token;
    } else if (token === ',') out += token + line();
    else if (token === ':') out += ': ';
    else out += token;
  }
  return out;
}
