// Tabs as the ARIA practices want them: one stop of the tab key, arrows between them.
import {tag} from "./dom.js";

export function wireTabs(list, choose) {
  list.addEventListener("click", event => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose(tab);
  });
  list.addEventListener("keydown", event => {
    const tabs = [...list.querySelectorAll("[role=tab]")], at = tabs.indexOf(document.activeElement);
    const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1}[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length];
    next.focus();
    choose(next);
  });
}

export function select(list, chosen) {
  for (const tab of list.querySelectorAll("[role=tab]")) {
    tab.setAttribute("aria-selected", String(tab === chosen));
    tab.tabIndex = tab === chosen ? 0 : -1;
  }
}

// names: [{name, kind, title}]
export function drawTabs(list, names, at) {
  list.hidden = names.length < 2;
  list.replaceChildren(...names.map(({name, kind, title}, index) =>
    tag("button", {type: "button", role: "tab", "data-index": index, "aria-selected": String(index === at), "aria-controls": "view",
      tabindex: index === at ? 0 : -1, class: kind, title}, tag("i"), name)));
}
