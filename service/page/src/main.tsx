import { render } from "preact";
import { start } from "./live";
import { App } from "./views/app";

const place = document.getElementById("page");
if (place === null) throw new Error("the document has no place for the page");
place.replaceChildren();
render(<App />, place);
start();
