/** Where a view has broken, or none stands. */
import { useEffect } from "react";
import { Link, useRouteError } from "react-router";
import { Problem } from "@/api/problem";
import { Button } from "@/parts/Button";
import { Empty } from "@/parts/Empty";
import { ProblemNote } from "@/parts/ProblemNote";
import { Title } from "@/parts/Title";
import { t } from "@/texts/texts";
import { isLacking, reloadIfNewer } from "./outdated";

export function ErrorPage() {
  const error = useRouteError();
  const lacking = isLacking(error);
  useEffect(() => {
    if (lacking) void reloadIfNewer();
  }, [lacking]);
  if (error instanceof Problem) return <ProblemNote error={error} onRetry={() => location.reload()} />;
  return (
    <div className="p-4">
      <Title text={lacking ? t.parts.lacking : t.parts.broken} />
      <p className="mb-3 text-muted">{lacking ? t.parts.lackingWhy : t.parts.brokenWhy}</p>
      <pre className="mb-3 overflow-x-auto rounded bg-raised p-2 font-mono">{String(error)}</pre>
      <Button look="main" onClick={() => location.reload()}>
        {t.parts.reload}
      </Button>
    </div>
  );
}

export function NotFoundPage() {
  return (
    <>
      <Title text={t.parts.notFound} />
      <Empty title={t.parts.notFoundWhy}>
        <Link to="/inbox" className="text-accent underline">
          {t.app.inbox}
        </Link>
      </Empty>
    </>
  );
}
