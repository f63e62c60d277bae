// Elements that are made once, and then changed only where their text has changed.
export const find = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// The body of a table, which is made with these headings if need be; each heading has its text and its class.
export function body(table, heads) {
  if (!table.tHead) {
    const cells = heads.map(([text, look]) => make("th", { scope: "col", class: look }, text));
    table.append(make("thead", {}, make("tr", {}, ...cells)), make("tbody"));
  }
  return table.tBodies[0];
}

// Gives `parent` one child for each of `keys`, in their order, and returns the children; `build(key)` makes new ones.
export function keep(parent, keys, build) {
  const there = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const key of keys) {
    let child = there.get(key);
    if (child === undefined) {
      child = build(key);
      child.dataset.key = key;
    } else there.delete(key);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of there.values()) child.remove();
  return parent.children;
}
