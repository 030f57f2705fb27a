// Short names for what every part of the page does with elements.

/**
 * The element with this id; the page has all of them.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element #${id}`);
  return found;
}

/**
 * Makes an element. Properties are set as properties, children are appended as
 * text or as they are; there is no way to pass markup.
 * @param {string} tag
 * @param {Record<string, unknown>} [properties]
 * @param {...(Node | string)} children
 * @returns {any}
 */
export function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** The value of the checked radio button. @param {string} name @returns {any} */
export function checked(name) {
  return /** @type {HTMLInputElement} */ (document.querySelector(`input[name="${name}"]:checked`)).value;
}

/** @param {string} name @param {string} value */
export function check(name, value) {
  const input = /** @type {HTMLInputElement | null} */ (document.querySelector(`input[name="${name}"][value="${value}"]`));
  if (input) input.checked = true;
}
