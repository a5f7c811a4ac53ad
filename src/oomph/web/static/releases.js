// The lists of releases: the one that is planned with, and the one to compare it with.
import {$, tag} from "./dom.js";
import {fillForm, formOf} from "./forms.js";
import {place} from "./place.js";

let drawn = "";

export function drawReleases(releases, engine) {
  const list = engine.name + releases.join(" ");
  if (list === drawn && [...$("release").options].some(one => one.value === place.engine)) { $("release").value = place.engine; return; }
  drawn = list; // a list that is open under the user's hand is not replaced by the same
  const options = releases.map(release => tag("option", {value: `${engine.name}==${release}`}, release));
  $("release").replaceChildren(tag("option", {value: ""}, releases[0] ? `newest (${releases[0]})` : "newest"), ...options);
  $("release").value = place.engine;
  if ($("release").selectedIndex < 0) { $("release").append(tag("option", {value: place.engine}, engine.version)); $("release").value = place.engine; }
  $("release").disabled = !releases.length;
  const other = formOf("diff").elements.engine, before = other.value;
  other.replaceChildren(tag("option", {value: ""}, "the same"), ...options.map(option => option.cloneNode(true)));
  other.value = before || (releases[0] && engine.version !== releases[0] ? `${engine.name}==${releases[0]}` : releases[5] ? `${engine.name}==${releases[5]}` : "");
  fillForm("diff");
}
