// The part of the address after `#`: the view, and all its filters, so that what is shown can be sent to others.

import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

/** The names of the view, `["relations", "ORDERS"]`; none for the overview. */
export const path = computed(() => parts(hash.value)[0].split("/").filter(Boolean).map(decoded));
export const filters = computed(() => new URLSearchParams(parts(hash.value)[1]));

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // Typed by a person: no name of ours is encoded so.
  }
}

function parts(text: string): [string, string] {
  const [names = "", query = ""] = text.replace(/^#/, "").split("?", 2);
  return [names, query];
}

/** Return the address of a view. */
export function to(names: readonly string[], query: Readonly<Record<string, string>> = {}): string {
  const text = new URLSearchParams(query).toString();
  return `#/${names.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

/** Return the address of this view with other filters; an empty value leaves one out. */
export function filtered(changes: Readonly<Record<string, string>>): string {
  const all = { ...Object.fromEntries(filters.value), ...changes };
  return to(path.value, Object.fromEntries(Object.entries(all).filter(([, value]) => value !== "")));
}

/** Set filters of this view without a step in the browser's history. */
export function filter(changes: Readonly<Record<string, string>>): void {
  history.replaceState(null, "", filtered(changes));
  hash.value = location.hash;
}
