// Marks every link and, of the elements with text of their own, three of each look: colour, size and weight of the text,
// backgrounds and opacities around it, switched off or not. The contrast of one is that of all of its look.
() => {
  const around = new Map([[null, ""]]);
  const backdrop = (element) => {
    if (!around.has(element)) {
      const style = getComputedStyle(element);
      const own = `${style.backgroundColor}|${style.backgroundImage}|${style.opacity}`;
      around.set(element, backdrop(element.parentElement) + (own === "rgba(0, 0, 0, 0)|none|1" ? "" : `>${own}`));
    }
    return around.get(element);
  };
  const hasText = (element) =>
    element.matches("input, select, textarea") ||
    [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.nodeValue.trim());
  const looks = new Map();
  for (const element of document.querySelectorAll("body, body *")) {
    element.removeAttribute("data-shade");
    if (!hasText(element) || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const off = Boolean(element.closest(":disabled, [aria-disabled=true]"));
    const text = [style.color, style.fontSize, style.fontWeight, style.textShadow];
    const look = [element.localName, off, ...text, backdrop(element)].join("|");
    looks.set(look, (looks.get(look) ?? 0) + 1);
    if (looks.get(look) <= 3 || element.localName === "a") element.setAttribute("data-shade", "");
  }
}
