// The view that is shown as one file: the same markup and style in the template that --html uses, and a policy for it.
import {download} from "./share.js";

export async function save(html, title) {
  const charts = html.includes('class="plot"');
  const [template, style, sheet, library, plots] = await Promise.all(
    ["/file.html", "/style.css", ...(charts ? ["/vendor/uplot.css", "/vendor/uplot.js", "/plots.js"] : [])].map(async path => (await fetch(path)).text()));
  const css = style + (sheet ?? "");
  const scripts = charts ? [library, plots.replaceAll("export ", "") + "\ndrawPlots(document);\n"] : [];
  const marks = (await Promise.all(scripts.map(mark))).join(" ") || "'none'";
  const values = {TITLE: escape(title), STYLE: css, VIEW: html, SCRIPTS: scripts.map(s => `<script>${s}</script>`).join(""),
    POLICY: `default-src 'none'; style-src ${await mark(css)}; script-src ${marks}; base-uri 'none'; form-action 'none'`};
  const text = template.replace(/\{\{(\w+)\}\}/g, (_, name) => values[name]);
  download(new Blob([text], {type: "text/html"}), "html", title);
}

async function mark(text) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return `'sha256-${btoa(String.fromCharCode(...digest))}'`;
}

function escape(text) { return text.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`); }
