// Turning values into short text. Nothing in here touches the page.

/** Longest text of one message row; what is longer is cut and says so. */
export const maxText = 2000;

/** @param {Date} date @returns {string} local time, hh:mm:ss.mmm */
export function clock(date) {
  const two = (n) => String(n).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/**
 * Splits an instance id into a name and the start of its random end, if it has
 * one: "hub-a1-0123…cdef" (32 hexadecimal digits or a UUID) is "hub-a1", "012345".
 * @param {unknown} id
 * @returns {{name: string, tail: string}}
 */
export function instanceName(id) {
  if (typeof id !== "string" || id === "") return { name: "—", tail: "" };
  const match = /^(.+?)[-_.:/@]([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})$/i.exec(id);
  return match ? { name: match[1], tail: match[2].slice(0, 6) } : { name: id, tail: "" };
}

/**
 * Shows any argument a hub can send. Binary data, big integers and whatever
 * JSON cannot hold are named, never dropped.
 * @param {unknown[]} args
 * @returns {string}
 */
export function argumentsText(args) {
  const text = args.map(argumentText).join(", ");
  return text.length > maxText ? `${text.slice(0, maxText)}… (${count(text.length)} characters)` : text;
}

/** @param {unknown} value */
function argumentText(value) {
  try {
    return JSON.stringify(value, plain) ?? String(value);
  } catch {
    return String(value);
  }
}

/** @param {string} _key @param {unknown} value */
function plain(_key, value) {
  if (typeof value === "bigint") return `${value}n`;
  if (value instanceof ArrayBuffer) return `<${value.byteLength} bytes>`;
  if (ArrayBuffer.isView(value)) return `<${value.byteLength} bytes>`;
  return value;
}

/** @param {number} n @returns {string} with thousands separators */
export function count(n) {
  return n.toLocaleString("en-US");
}

/** @param {number} ms @returns {string} for a figure: 0.42, 3.1, 250 */
export function milliseconds(ms) {
  if (!Number.isFinite(ms)) return "—";
  if (Math.abs(ms) < 1) return ms.toFixed(2);
  return Math.abs(ms) < 100 ? ms.toFixed(1) : count(Math.round(ms));
}

/**
 * Reads what the user typed as arguments: a JSON array is the list of them,
 * anything else is one text.
 * @param {string} text
 * @returns {unknown[]}
 */
export function parseArguments(text) {
  if (!text.trimStart().startsWith("[")) return [text];
  try {
    const value = JSON.parse(text);
    return Array.isArray(value) ? value : [text];
  } catch (err) {
    throw new Error(`The list of arguments is no JSON: ${err instanceof Error ? err.message : err}`);
  }
}

/**
 * Whether the client library found no transport that the server offers and the
 * settings allow: each one it names was ruled out, none was tried.
 * @param {string} text
 */
export function notOffered(text) {
  const named = text.match(/\w+ failed: /g)?.length ?? 0;
  return named > 0 && named === (text.match(/is disabled by the client|does not support (Text|Binary)/g)?.length ?? 0);
}

/**
 * The part of an error that helps: the server's own words where there are some.
 * @param {unknown} err
 * @returns {string}
 */
export function errorText(err) {
  const text = err instanceof Error ? err.message : String(err);
  const own = /HubException: (.*)$/s.exec(text);
  if (own) return own[1];
  if (/40[13]|Unauthorized|Forbidden/.test(text) && /negotiat|status code/i.test(text)) {
    return "The server wants an access token, or does not accept this one.";
  }
  if (notOffered(text)) return "The server does not offer this transport.";
  return text.replace(/(^|: )Error: /, "$1");
}
