// One question at a time. Whatever changes while an answer is on its way begins a new turn with what is in force now: a text
// that was not read yet is read again. Only the turn that asked draws, so that the answer shown belongs to the question shown.
import {ask, cancel} from "./ask.js";
import {formOf, readForm} from "./forms.js";
import {place, subject} from "./place.js";
import {takePlan, takeReading} from "./readings.js";
import {drawAnswer, drawCancelled, drawEmpty, drawRefusal, drawStale} from "./view.js";
import {DOING} from "./words.js";

export const ALONE = new Set(["cards", "models"]); // need nothing in the box
const NEEDS_PLAN = new Set(["what_if", "simulate"]); // whose controls are those of the plan
const LARGEST = 200 * 2 ** 20; // bytes of a log that the server takes
const answers = new Map(); // the last answers by what was asked
let turn = 0;

export async function settle(fresh = false) {
  const mine = ++turn, gone = () => mine !== turn;
  cancel();
  drawStale();
  try {
    const answer = await currentAnswer(gone, fresh);
    if (gone()) return;
    if (answer === null) drawCancelled();
    else if (answer) drawAnswer(answer);
    else drawEmpty(place.view || "plan");
  } catch (refused) {
    if (!gone()) drawRefusal(refused);
  }
}

// The answer to what is in force; null where the user has given up, undefined where there is nothing to ask yet.
async function currentAnswer(gone, fresh) {
  if (place.unread) {
    const reading = await read();
    if (gone() || !reading) return reading;
    const answer = takeReading(reading);
    place.unread = false;
    if (answer) answers.set(key(place.view), answer);
  }
  if (Object.keys(place.moved).length) {
    const answer = await ask("/api/plan", {...subject(), set: place.moved}, DOING.plan);
    if (gone() || !answer) return answer;
    place.moved = {};
    if (!answer.asks) takePlan(answer);
    answers.set(key("plan"), answer);
  }
  return viewAnswer(gone, fresh);
}

function read() {
  if (place.file?.size > LARGEST)
    throw {message: `${place.name} is larger than 200 MB`, hint: "type the path of a checkpoint instead, or cut the log: its first lines and its last ones say it all", field: "text"};
  const {name, gpu, chosen, earlier, stage, fixed, engine, live} = place;
  const query = new URLSearchParams({name, gpu: chosen ? gpu : live, chosen: chosen ? "1" : "0", earlier: earlier ? "1" : "0", engine: fixed ? engine : "", stage});
  return ask("/api/read?" + query, place.file ?? place.text, name ? `Reading ${name}` : "Reading");
}

async function viewAnswer(gone, fresh) {
  const view = place.view ||= "plan";
  if (view === "explain") return place.runs.length ? place.runs[place.run] : undefined;
  if (!place.command && !place.model && !ALONE.has(view)) return undefined;
  if (view === "diff" && !Object.values(readForm(view).other).some(Boolean)) return undefined;
  if (NEEDS_PLAN.has(view) && !document.getElementById("levers").children.length) {
    const plan = answers.get(key("plan")) ?? await ask("/api/plan", subject(), DOING.plan);
    if (gone() || !plan) return plan;
    if (!plan.asks) takePlan(plan);
  }
  if (fresh) answers.delete(key(view));
  const body = {...subject(), ...(formOf(view) ? readForm(view) : {})};
  const answer = answers.get(key(view)) ?? await ask("/api/" + view, body, DOING[view]);
  if (gone() || !answer) return answer;
  if (view === "plan" && !answer.asks) takePlan(answer);
  answers.set(key(view), answer);
  if (answers.size > 30) answers.delete(answers.keys().next().value);
  return answer;
}

function key(view) { return JSON.stringify([view, subject(), formOf(view) ? readForm(view) : 0]); }
