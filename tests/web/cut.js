// Text that does not fit into its box, controls that lie over each other, what is beyond the right edge, an empty foot.
() => {
  const out = [], seen = e => e.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) && e.getClientRects().length;
  if (document.documentElement.scrollWidth > innerWidth) out.push("the page is wider than the window");
  const foot = document.documentElement.scrollHeight - Math.max(innerHeight, document.querySelector("main").getBoundingClientRect().bottom + scrollY);
  if (foot > 1) out.push(`${foot} px of nothing below the page`);
  for (const e of document.querySelectorAll("h1,h2,p,span,b,dt,dd,li,label,summary,button,th,td,code,strong,figcaption"))
    if (seen(e) && !e.closest(".scroll,pre,.u-legend,.skip,svg") && e.getBoundingClientRect().right > innerWidth + 1) out.push("beyond the edge: " + e.textContent.slice(0, 60));
  for (const e of document.querySelectorAll("button,select,dd,dt,th,.label,.stage"))
    if (seen(e) && e.scrollWidth > e.clientWidth + 2 && getComputedStyle(e).display !== "inline") out.push("cut: " + e.textContent.slice(0, 60));
  for (const e of document.querySelectorAll(".scroll")) if (seen(e) && e.scrollWidth > e.clientWidth + 1) out.push("a table is cut: " + e.getAttribute("aria-label"));
  const controls = [...document.querySelectorAll("button,input,select,textarea,summary,a")].filter(e => seen(e) && !e.matches(".away,.skip"));
  const boxes = controls.map(e => [e, e.getBoundingClientRect()]);
  boxes.forEach(([a, x], i) => boxes.slice(i + 1).forEach(([b, y]) => {
    if (a.contains(b) || b.contains(a)) return;
    const wide = Math.min(x.right, y.right) - Math.max(x.left, y.left), high = Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top);
    if (wide > 1 && high > 1) out.push(`covered: ${a.id || a.textContent.slice(0, 30)} and ${b.id || b.textContent.slice(0, 30)}`);
  }));
  for (const svg of document.querySelectorAll("svg.bar,svg.scatter")) {
    const texts = [...svg.querySelectorAll("text")].map(t => [t, t.getBoundingClientRect()]);
    texts.forEach(([a, x], i) => texts.slice(i + 1).forEach(([b, y]) => {
      if (Math.min(x.right, y.right) - Math.max(x.left, y.left) > 1 && Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top) > 1) out.push(`text over text: ${a.textContent} and ${b.textContent}`);
    }));
    const edge = svg.getBoundingClientRect();
    for (const [t, x] of texts) if (x.right > edge.right + 1 || x.left < edge.left - 1) out.push("text leaves its picture: " + t.textContent);
  }
  return [...new Set(out)];
}
