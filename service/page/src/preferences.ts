// What a person chose for this browser: times in UTC or local, and the colours. Nothing else is stored.

import { effect, signal } from "@preact/signals";
import type { Zone } from "./text";

export type Theme = "system" | "light" | "dark";

export const zone = signal<Zone>(localStorage.getItem("rowtide.zone") === "local" ? "local" : "UTC");
export const theme = signal<Theme>(themeOf(localStorage.getItem("rowtide.theme")));

effect(() => localStorage.setItem("rowtide.zone", zone.value));
effect(() => {
  localStorage.setItem("rowtide.theme", theme.value);
  document.documentElement.dataset.theme = theme.value;
});

function themeOf(stored: string | null): Theme {
  return stored === "light" || stored === "dark" ? stored : "system";
}
