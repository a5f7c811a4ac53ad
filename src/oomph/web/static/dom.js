// The few things that every module does with the document.
export const $ = id => document.getElementById(id);

export function tag(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") node.className = value;
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// A view from the server. It is escaped there, and the page's policy runs no script in it.
export function parse(html) {
  const made = new DOMParser().parseFromString(html, "text/html");
  return [...made.body.childNodes].map(node => document.adoptNode(node));
}
