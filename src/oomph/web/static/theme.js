// Light or dark: as the system has it, until the user says otherwise.
export function wireTheme(button, changed) {
  try { apply(localStorage.getItem("oomph-theme")); } catch { /* a browser that keeps nothing */ }
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    apply(next);
    try { localStorage.setItem("oomph-theme", next); } catch { /* as above */ }
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

function apply(theme) { if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme; }

function isDark() {
  const said = document.documentElement.dataset.theme;
  return said ? said === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
