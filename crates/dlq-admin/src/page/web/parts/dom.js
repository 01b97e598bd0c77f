// Elements from data. Text is only ever text: nothing that comes from outside is parsed as markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else if (name === 'value' && 'value' in element) element.value = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

// h('p', {class: 'soft'}, 'text', node, [nodes]); a property that is a function is a listener:
// `onclick`. Absent children and properties are left out.
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// Puts other contents into an element. Whoever had the focus has it again, found by its
// `data-focus`, so that a list that is refreshed every second can be worked on by keyboard; and
// what was unfolded stays so.
export function replace(element, ...children) {
  const held = element.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  const open = [...element.querySelectorAll('details[open][data-focus]')].map((d) => d.dataset.focus);
  const fresh = document.createDocumentFragment();
  append(fresh, children);
  for (const details of fresh.querySelectorAll('details[data-focus]')) {
    if (open.includes(details.dataset.focus)) details.open = true;
  }
  element.replaceChildren(fresh);
  if (held) element.querySelector(`[data-focus="${CSS.escape(held)}"]`)?.focus();
}
